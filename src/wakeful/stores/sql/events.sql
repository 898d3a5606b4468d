-- Accepting events: the event itself, its admissions, runs and decisions, and the idempotency keys of requests.

-- insert_event(now, key, app, source, id, type, subject, state, reason, content, envelope) --
-- No row comes back if the identity is already known.
insert into wakeful_event (key, app, source, id, type, subject, state, reason, content, envelope, accepted_at)
values (:key, :app, :source, :id, :type, :subject, :state, :reason, :content, :envelope, {now})
on conflict (key) do nothing
returning key, seq

-- insert_trace(trace, event_seq) --
insert into wakeful_trace (trace, event_seq) values (:trace, :event_seq) on conflict (trace, event_seq) do nothing

-- insert_admission(event_seq, agent, state, run_id, reason) --
insert into wakeful_admission (event_seq, agent, state, run_id, reason)
values (:event_seq, :agent, :state, :run_id, :reason)
on conflict (event_seq, agent) do nothing

-- insert_run(now, id, root, app, agent, event_seq, expires_at) --
insert into wakeful_run (id, root, app, agent, event_seq, state, due_at, expires_at, created_at)
values (:id, :root, :app, :agent, :event_seq, 'ready', {now}, :expires_at, {now})
on conflict (id) do nothing

-- insert_decision(now, app, event_seq, run_seq, agent, answer, rule, version, reason, mode) --
-- A decision about an event that is about to become a run.
insert into wakeful_decision (app, place, event_seq, run_seq, agent, answer, rule, version, reason, mode, decided_at)
values (:app, 'admission', :event_seq, :run_seq, :agent, :answer, :rule, :version, :reason, :mode, {now})

-- insert_run_decision(now, run_seq, agent, answer, rule, version, reason, place, action, effect_id, mode) --
-- A decision about a run that has started.
insert into wakeful_decision
  (app, place, event_seq, run_seq, agent, answer, rule, version, reason, action, effect_id, mode, decided_at)
select app, :place, event_seq, seq, :agent, :answer, :rule, :version, :reason, :action, :effect_id, :mode, {now}
from wakeful_run where seq = :run_seq

-- count_duplicate(key) --
-- One more delivery of a known event; returns the content digest of the first one.
update wakeful_event set duplicates = duplicates + 1 where key = :key returning key, seq, content

-- envelope_of_event(seq) --
select seq, envelope from wakeful_event where seq = :seq

-- insert_conflict(now, event_seq, content, envelope) --
insert into wakeful_conflict (event_seq, content, envelope, seen_at)
values (:event_seq, :content, :envelope, {now})
on conflict (event_seq, content) do nothing

-- runs_of_event(event_seq) --
select event_seq, run_id from wakeful_admission where event_seq = :event_seq and run_id is not null order by agent

-- find_idempotency(app, key) --
select request, response from wakeful_idempotency where app = :app and key = :key

-- insert_idempotency(now, app, key, request) --
-- Takes a key. No row comes back if it is taken; PostgreSQL waits for a transaction that is just taking it.
insert into wakeful_idempotency (app, key, request, response, created_at)
values (:app, :key, :request, '[]', {now})
on conflict (app, key) do nothing
returning key

-- answer_idempotency(app, key, response) --
-- The answer of the request that took the key.
update wakeful_idempotency set response = :response where app = :app and key = :key

-- start_admission(event_seq, agent, run_id, reason) --
-- Hands a stored event to an agent that did not get it, or skipped it. No row comes back if the agent has it.
insert into wakeful_admission (event_seq, agent, state, run_id, reason)
values (:event_seq, :agent, 'started', :run_id, :reason)
on conflict (event_seq, agent) do update
set state = excluded.state, run_id = excluded.run_id, reason = excluded.reason
where wakeful_admission.state in ('skipped', 'expired') and wakeful_admission.run_id is null
returning event_seq

-- accept_unmatched(seq) --
-- The event is used after all.
update wakeful_event set state = 'accepted', reason = null where seq = :seq and state = 'unmatched'

-- expire_admission(run_seq, reason) --
-- The run of an event that expired before its first start. A run that gathered several events expires with the last of them.
update wakeful_admission set state = 'expired', reason = :reason
where agent = (select agent from wakeful_run where seq = :run_seq)
  and event_seq in (
    select event_seq from wakeful_run where seq = :run_seq
    union all
    select event_seq from wakeful_batch where run_seq = :run_seq
  )
