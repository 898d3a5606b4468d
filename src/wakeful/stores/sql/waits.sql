-- Waits of runs for events, other runs and people. A wait is a step in the state `waiting`; the transaction that brings the awaited thing
-- ends that step and makes its run ready.

-- lock_waits(run_seq) --
-- Before the steps and the run: the same order in which a transaction that brings an event locks them.
select key from wakeful_wait where run_seq = :run_seq order by key {for_update}

-- lock_approvals(run_seq) --
-- As lock_waits: the same order in which an answer locks them.
select key from wakeful_approval where run_seq = :run_seq order by key {for_update}

-- register_step(run_seq, token, key, name, position, attempt, arguments, result, started_at, finished_at) --
-- The step of a wait. If it was answered meanwhile, it stays as it is. The row is locked in any case, so that an answer in flight is
-- either seen by the next statement or sees the run as waiting.
insert into wakeful_step
  (run_seq, key, name, state, position, tries, attempt, arguments, result, error, started_at, finished_at)
select seq, :key, :name, 'waiting', :position, 0, :attempt, :arguments, :result, null, :started_at, :finished_at
from wakeful_run where seq = :run_seq and token = :token
on conflict (run_seq, key) do update set attempt = excluded.attempt where wakeful_step.state = 'waiting'

-- ask_step_again(run_seq, key, result) --
-- It was answered, but the code cannot read the answer.
update wakeful_step set state = 'waiting', result = :result where run_seq = :run_seq and key = :key and state = 'done'

-- insert_wait(now, run_seq, key, type, subject, condition, variables) --
-- SQLite has one writer: an event either exists already and is found, or comes later and finds this wait.
insert into wakeful_wait
  (run_seq, key, app, type, subject, condition, variables, settled, registered_at)
select seq, :key, app, :type, :subject, :condition, :variables, 1, {now}
from wakeful_run where seq = :run_seq
on conflict (run_seq, key) do nothing

-- any_wait() --
-- Whether any run waits for an event at all.
select 1 from wakeful_wait where event_seq is null limit 1

-- find_waits(app, type, subject) --
-- Waits for an event like this one, in the order of their registration.
select run_seq, key, condition, variables from wakeful_wait
where app = :app and type = :type and subject in ('', :subject) and event_seq is null
order by run_seq, registered_at, key

-- waits_of_run(run_seq) --
-- The open waits of a run.
select key, app, type, subject, condition, variables from wakeful_wait
where run_seq = :run_seq and event_seq is null
order by registered_at, key

-- awaited_about(app, type, subject, skip, run_seq) --
-- Events that came since the run was made, oldest first, without its own and those that ended an earlier wait of it. A later run of a
-- family was made later than its event, so the time counts.
select event.seq, event.envelope from wakeful_event event join wakeful_run run on run.seq = :run_seq
where event.app = :app and event.subject = :subject and event.type = :type and event.seq > run.event_seq
  and event.state in ('accepted', 'unmatched') and event.envelope <> ''
  and (run.id = run.root or event.accepted_at >= run.created_at)
  and not exists (select 1 from wakeful_wait taken where taken.run_seq = :run_seq and taken.event_seq = event.seq)
  and not exists (select 1 from wakeful_batch own where own.run_seq = :run_seq and own.event_seq = event.seq)
order by event.seq limit 100 offset :skip

-- awaited(app, type, skip, run_seq) --
-- As awaited_about, with any subject.
select event.seq, event.envelope from wakeful_event event join wakeful_run run on run.seq = :run_seq
where event.app = :app and event.type = :type and event.seq > run.event_seq
  and event.state in ('accepted', 'unmatched') and event.envelope <> ''
  and (run.id = run.root or event.accepted_at >= run.created_at)
  and not exists (select 1 from wakeful_wait taken where taken.run_seq = :run_seq and taken.event_seq = event.seq)
  and not exists (select 1 from wakeful_batch own where own.run_seq = :run_seq and own.event_seq = event.seq)
order by event.seq limit 100 offset :skip

-- take_event(run_seq, key, event_seq) --
-- No row comes back if the wait is over or another wait of the run has this event.
update wakeful_wait set event_seq = :event_seq, settled = 1
where run_seq = :run_seq and key = :key and event_seq is null
  and not exists (select 1 from wakeful_wait taken where taken.run_seq = :run_seq and taken.event_seq = :event_seq)
returning run_seq

-- note_misfit(run_seq, key, event_seq, reason) --
-- The wait's condition could not be evaluated for this event.
update wakeful_wait set misfit = (select id from wakeful_event where seq = :event_seq), reason = :reason
where run_seq = :run_seq and key = :key and event_seq is null

-- wait_and_event(run_seq, key, event_seq) --
-- The run of a wait, the event that ended it, the misfit stored with it; and the id of an event.
select run.app, run.agent, run.id, wait.event_seq, wait.misfit, event.id from wakeful_wait wait
join wakeful_run run on run.seq = wait.run_seq
cross join wakeful_event event
where wait.run_seq = :run_seq and wait.key = :key and event.seq = :event_seq

-- misfits_of_run(run_seq) --
-- The events that conditions of a run's waits could not be evaluated for.
select key, misfit, reason from wakeful_wait where run_seq = :run_seq and misfit is not null

-- answer_step(now, run_seq, key, state, result, error) --
-- The awaited thing is there. No row comes back if the wait is over.
update wakeful_step set state = :state, result = :result, error = :error, finished_at = {now}
where run_seq = :run_seq and key = :key and state = 'waiting'
returning run_seq

-- wake_run(now, seq, reason) --
-- Unless the run is running, held or parked, or waits for its next attempt after a failure.
update wakeful_run set state = 'ready', due_at = {now}, reason = :reason
where seq = :seq and state = 'waiting' and error is null
returning app, agent

-- answered_steps(run_seq, key) --
-- Whether a step that a run waits for has been answered.
select run_seq from wakeful_step where run_seq = :run_seq and key = :key and state <> 'waiting'

-- step_of_run(run_seq, key) --
select run_seq, key, name, state, result, error, arguments, tries, attempt, position, started_at, finished_at
from wakeful_step where run_seq = :run_seq and key = :key

-- end_step(now, run_seq, token, key, error) --
-- The wait timed out. Fenced; no row comes back if it was answered at the last moment.
update wakeful_step set state = 'failed', error = :error, finished_at = {now}
where run_seq = :run_seq and key = :key and state = 'waiting'
  and exists (select 1 from wakeful_run where seq = :run_seq and token = :token and state = 'running')
returning run_seq

-- close_wait(run_seq, key) --
delete from wakeful_wait where run_seq = :run_seq and key = :key and event_seq is null

-- close_waits(run_seq) --
-- A run that has ended waits for nothing.
delete from wakeful_wait where run_seq = :run_seq and event_seq is null

-- mark_rechecked(run_seq) --
update wakeful_wait set settled = 1 where run_seq = :run_seq and settled = 0

-- waits_to_recheck(now, app, older) --
-- Runs whose waits were not rechecked: their process died right after it had registered them.
select distinct run_seq from wakeful_wait where app = :app and settled = 0 and registered_at <= {now} - :older

-- adopt_run(id, parent_seq, parent_key) --
-- Called by another run, which waits for its output.
update wakeful_run set parent_seq = :parent_seq, parent_key = :parent_key where id = :id

-- adopt_member(id, event, parent_seq, parent_key) --
-- As adopt_run, for a call that joined others: each caller waits for the output of the one run.
update wakeful_batch set parent_seq = :parent_seq, parent_key = :parent_key
where run_seq = (select seq from wakeful_run where id = :id) and event_seq = (select seq from wakeful_event where key = :event)

-- end_of_run(id) --
-- How a called run ended, if it has. No row comes back if it is no longer stored.
select state, output, error, reason from wakeful_run where id = :id

-- became_of_event(key) --
-- The admission of an event for the one agent that it was addressed to.
select admission.agent, admission.state, admission.reason from wakeful_admission admission
join wakeful_event event on event.seq = admission.event_seq where event.key = :key

-- open_approval(now, id, run_seq, token, key, app, agent, question, asked_of, schema, due_at) --
-- An approval that was withdrawn with its run is asked again when the run is replayed.
insert into wakeful_approval (id, app, agent, run_seq, key, question, asked_of, schema, state, asked_at, due_at)
select :id, :app, :agent, seq, :key, :question, :asked_of, :schema, 'open', {now}, :due_at
from wakeful_run where seq = :run_seq and token = :token and state = 'running'
on conflict (id) do update
set state = 'open', due_at = excluded.due_at, run_seq = excluded.run_seq, note = excluded.note, asked_at = excluded.asked_at
where wakeful_approval.state in ('withdrawn', 'expired')

-- clear_unanswered(run_seq) --
-- Approvals that were withdrawn when the run ended: a replay asks for them again.
delete from wakeful_step where run_seq = :run_seq and state = 'waiting' and exists (
  select 1 from wakeful_approval asked
  where asked.run_seq = :run_seq and asked.key = wakeful_step.key and asked.state || '' = 'withdrawn')

-- answerer_of_approval(id) --
select answered_by from wakeful_approval where id = :id

-- answer_of_approval(id, run_seq) --
-- A run that starts from the top asks again for an approval that was answered.
select answer from wakeful_approval where id = :id and run_seq = :run_seq and state = 'answered'

-- find_approval(id) --
select approval.id, approval.app, approval.agent, approval.run_seq, approval.key, approval.state, approval.schema,
  approval.answered_by, approval.question, run.id, approval.kind
from wakeful_approval approval join wakeful_run run on run.seq = approval.run_seq where approval.id = :id

-- answer_approval(now, id, answer, operator, note) --
-- The first answer counts: no row comes back for a second one.
update wakeful_approval set state = 'answered', answer = :answer, answered_by = :operator, note = :note, answered_at = {now}
where id = :id and state = 'open'
returning run_seq, key

-- reopen_approval(id, note, due_at) --
-- The answer did not match the schema that the code asked for.
update wakeful_approval set state = 'open', due_at = :due_at, answer = null, answered_by = null, answered_at = null, note = :note
where id = :id and state = 'answered'

-- expire_approval(run_seq, key) --
update wakeful_approval set state = 'expired' where run_seq = :run_seq and key = :key and state = 'open'
returning id, app, agent

-- open_approvals(app) --
select id from wakeful_approval where app = :app and state = 'open'

-- page_of_approvals(after, most, state) --
-- Newest first; `after` is the seq of the last one seen.
select approval.seq, approval.id, approval.app, approval.agent, run.id as run, approval.question, approval.asked_of as "to",
  approval.schema, approval.state, approval.answer, approval.answered_by, approval.note, approval.asked_at, approval.due_at,
  approval.answered_at, approval.kind, approval.rule, approval.action, approval.arguments, approval.digest, approval.needed as "of", approval.approvers as "by",
  approval.effect_id as effect, approval.editable as edit
from wakeful_approval approval join wakeful_run run on run.seq = approval.run_seq
where (cast(:state as text) is null or approval.state = :state) and (cast(:after as bigint) is null or approval.seq < :after)
order by approval.seq desc limit :most

-- find_approvals(id, upper) --
-- By id or by a prefix of one.
select approval.id, approval.app, approval.agent, run.id as run, approval.question, approval.asked_of as "to",
  approval.schema, approval.state, approval.answer, approval.answered_by, approval.note, approval.asked_at, approval.due_at,
  approval.answered_at, approval.kind, approval.rule, approval.action, approval.arguments, approval.digest, approval.needed as "of", approval.approvers as "by",
  approval.effect_id as effect, approval.editable as edit
from wakeful_approval approval join wakeful_run run on run.seq = approval.run_seq
where approval.id >= :id and approval.id < :upper order by approval.id limit 2
