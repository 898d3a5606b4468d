-- Housekeeping: removes old rows of finished work. Rows are searched in order of seq, a few at a time, so that this needs no index of
-- its own. Rows that another transaction has locked are left for the next time.

-- span_of_runs() --
select min(seq), max(seq) from wakeful_run

-- span_of_events() --
select min(seq), max(seq) from wakeful_event

-- old_runs(app, after, upto, before) --
-- Runs that ended before `before` and hold no key: whether each is the newest of all, whether it is alone in its family, and whether
-- anything of it is open, as in unsettled_of_family. `limit 1` and `|| ''` force lookups by an index: a join may walk the whole table.
select run.root, run.agent, run.finished_at, run.id, run.token,
  case when run.seq = (select max(seq) from wakeful_run) then 1 else 0 end,
  case when run.id = run.root
    and (select 1 from wakeful_run other where other.root = run.root and other.id <> other.root limit 1) is null then 1 else 0 end,
  case when coalesce(
    (select 1 from wakeful_effect where root = run.root and state || '' in ('staged', 'waiting', 'intent', 'retrying', 'unknown', 'held') limit 1),
    (select 1 from wakeful_delivery where run_seq = run.seq and state || '' in ('held', 'pending', 'unknown', 'dead') limit 1),
    (select 1 from wakeful_run caller where caller.seq = run.parent_seq and caller.state not in ('done', 'dead', 'denied', 'cancelled') limit 1),
    (select 1 from wakeful_effect effect where effect.root = run.root and effect.once is not null
       and (select 1 from wakeful_operation_key where effect_id = effect.id limit 1) is not null limit 1)
  ) is null then 0 else 1 end
from wakeful_run run
where run.seq > :after and run.seq <= :upto and (cast(:app as text) is null or run.app = :app)
  and run.state in ('done', 'denied', 'cancelled') and run.place is null and run.finished_at <= :before
order by run.seq

-- family_of_root(root) --
select id, token, state, finished_at, seq = (select max(seq) from wakeful_run) from wakeful_run where id = :root
union all
select id, token, state, finished_at, seq = (select max(seq) from wakeful_run) from wakeful_run
where root = :root and id <> root

-- lock_family(root, before) --
-- Whether it has ended, and before `before`. The newest run of all stays: SQLite would give its seq to the next one.
select cast(:root as text), seq, id, token, event_seq,
  state in ('done', 'denied', 'cancelled') and finished_at <= :before and place is null
    and seq <> (select max(seq) from wakeful_run)
from wakeful_run
where seq in (select seq from wakeful_run where id = :root union all select seq from wakeful_run where root = :root and id <> root)

-- unsettled_of_family(root) --
-- What keeps a family: unfinished effects and deliveries, a caller that is open, and the business key of an effect.
select cast(:root as text) from wakeful_effect
where root = :root and state in ('staged', 'waiting', 'intent', 'retrying', 'unknown', 'held')
union all
select cast(:root as text) from wakeful_delivery
where run_seq in (select seq from wakeful_run where id = :root union all select seq from wakeful_run where root = :root and id <> root)
  and state in ('held', 'pending', 'unknown', 'dead')
union all
select cast(:root as text) from wakeful_run run join wakeful_run caller on caller.seq = run.parent_seq
where run.id = :root and caller.state not in ('done', 'dead', 'denied', 'cancelled')
union all
select cast(:root as text) from wakeful_operation_key
where effect_id in (select id from wakeful_effect where root = :root and once is not null)

-- unsettled_of_families(root) --
-- As unsettled_of_family, for many.
select cast(:root as text) from wakeful_effect
where root = :root and state in ('staged', 'waiting', 'intent', 'retrying', 'unknown', 'held')
union all
select cast(:root as text) from wakeful_delivery
where run_seq in (select seq from wakeful_run where id = :root union all select seq from wakeful_run where root = :root and id <> root)
  and state in ('held', 'pending', 'unknown', 'dead')
union all
select cast(:root as text) from wakeful_run run join wakeful_run caller on caller.seq = run.parent_seq
where run.id = :root and caller.state not in ('done', 'dead', 'denied', 'cancelled')
union all
select cast(:root as text) from wakeful_operation_key
where effect_id in (select id from wakeful_effect where root = :root and once is not null)

-- remove_steps(run_seq) --
delete from wakeful_step where run_seq = :run_seq

-- remove_attempts(run_seq) --
delete from wakeful_attempt where run_seq = :run_seq

-- remove_effects(root) --
delete from wakeful_effect where root = :root

-- remove_deliveries(run_seq) --
delete from wakeful_delivery where run_seq = :run_seq

-- remove_remedies(run_seq) --
delete from wakeful_remedy where run_seq = :run_seq

-- remove_batch(run_seq) --
delete from wakeful_batch where run_seq = :run_seq returning event_seq

-- remove_waits(run_seq) --
delete from wakeful_wait where run_seq = :run_seq

-- remove_votes(run_seq) --
delete from wakeful_vote where approval in (select id from wakeful_approval where run_seq = :run_seq)

-- remove_approvals(run_seq) --
delete from wakeful_approval where run_seq = :run_seq

-- remove_decisions(event_seq, run_seq) --
delete from wakeful_decision where event_seq = :event_seq and run_seq = :run_seq

-- remove_run(seq) --
delete from wakeful_run where seq = :seq

-- old_events(app, after, upto, before) raw --
-- Events accepted before `before` that have no runs left: whether they had any, and whether the payload is already removed. An input
-- kept in quarantine is a dead letter and stays; a released or discarded one goes the same time after that.
select event.seq, event.accepted_at,
  exists (select 1 from wakeful_admission admission where admission.event_seq = event.seq and admission.run_id is not null),
  case when event.envelope = '' then 1 else 0 end
from wakeful_event event
where event.seq > :after and event.seq <= :upto and event.app = :app and event.accepted_at <= :before
  and (event.state <> 'quarantined' or exists (
    select 1 from wakeful_quarantine quarantine
    where quarantine.event_seq = event.seq and quarantine.state <> 'kept' and quarantine.settled_at <= :before
  ))
  and not exists (
    select 1 from wakeful_admission admission join wakeful_run run on run.id = admission.run_id
    where admission.event_seq = event.seq
  )
order by event.seq

-- lock_event(seq) --
select seq from wakeful_event where seq = :seq

-- forget_payload(seq) --
-- Removes the payload but keeps the event's identity: a second delivery is still recognised.
update wakeful_event set envelope = '' where seq = :seq and envelope <> ''
  and not exists (select 1 from wakeful_quarantine where event_seq = :seq and state = 'kept')
  and not exists (
    select 1 from wakeful_admission admission join wakeful_run run on run.id = admission.run_id
    where admission.event_seq = :seq
  )
returning seq

-- forget_conflicts(event_seq) --
update wakeful_conflict set envelope = '' where event_seq = :event_seq

-- remove_event(seq, before) --
-- The newest event stays, as with runs.
delete from wakeful_event where seq = :seq and envelope = '' and accepted_at <= :before
  and seq <> (select max(seq) from wakeful_event)
  and not exists (select 1 from wakeful_quarantine where event_seq = :seq and state = 'kept')
  and not exists (
    select 1 from wakeful_admission admission join wakeful_run run on run.id = admission.run_id
    where admission.event_seq = :seq
  )
returning seq

-- remove_admissions(event_seq) --
delete from wakeful_admission where event_seq = :event_seq

-- remove_conflicts(event_seq) --
delete from wakeful_conflict where event_seq = :event_seq

-- remove_decisions_of_event(event_seq) --
delete from wakeful_decision where event_seq = :event_seq

-- events_with_payload(seq) --
-- Which of these events can still be handed to an agent; locked, so that they keep their payload until the commit.
select seq from wakeful_event where seq = :seq and envelope <> '' {for_update}

-- span_of_operations() --
select min(seq), max(seq) from wakeful_operation

-- old_operations(app, after, upto, sent, decided) --
-- Records of who did what. Those about a sent event, a started run or a check-in: from before `sent`, if the event and the run are gone.
-- The acts of people: from before `decided`, of this app; those that name no app, such as `keys rotate`, only if the store has no other app.
-- `app || '/'` matches no index: each event is looked up by its id.
select operation.seq from wakeful_operation operation
where operation.seq > :after and operation.seq <= :upto and (
  operation.verb in ('emit', 'run', 'checkin') and operation.app = :app and operation.done_at <= :sent
    and (select 1 from wakeful_event event where event.id = operation.target and event.app || '/' = cast(:app as text) || '/' limit 1) is null
    and (select 1 from wakeful_run run where run.id = operation.target limit 1) is null
  or operation.verb not in ('emit', 'run', 'checkin') and operation.done_at <= cast(:decided as bigint)
    and (operation.app = :app
      or operation.app is null and (select 1 from wakeful_agent agent where agent.app <> :app limit 1) is null)
)
order by operation.seq

-- remove_operations(seq, before) --
-- The time is checked again: SQLite may have given the number of the newest row, once that was removed, to another one.
delete from wakeful_operation where seq = :seq and done_at <= :before

-- old_idempotency(app, after, before, most) --
select key, created_at <= :before from wakeful_idempotency where app = :app and key > :after order by key limit :most

-- remove_idempotency(app, key, before) --
delete from wakeful_idempotency where app = :app and key = :key and created_at <= :before

-- remove_processes(before) --
-- A dead process with a guard still has runs to be taken back, so it stays.
delete from wakeful_process where lease_until <= :before and (state = 'stopped' or (state = 'dead' and guard is null))

-- empty_keys(app, most) --
-- Keys that no run holds or waits for.
select agent, key from wakeful_key
where app = :app and not exists (
    select 1 from wakeful_run run
    where run.app = wakeful_key.app and run.agent = wakeful_key.agent and run.key = wakeful_key.key and run.place is not null
  )
limit :most

-- lock_key(app, agent, key) --
select agent, key from wakeful_key where app = :app and agent = :agent and key = :key

-- remove_key(app, agent, key) --
-- Checked again now that the row is locked: a run may have got a place since.
delete from wakeful_key
where app = :app and agent = :agent and key = :key and not exists (
    select 1 from wakeful_run where app = :app and agent = :agent and key = :key and place is not null
  )

-- old_blobs(after, before, most) --
select id from wakeful_blob where id > :after and created_at <= :before order by id limit :most

-- remove_blob(id, before) --
delete from wakeful_blob where id = :id and created_at <= :before

-- admission_of_run(run) --
-- The event and agent of a run that was removed. There is no index for this: it is asked only when nothing else was found.
select event.key, admission.agent from wakeful_admission admission join wakeful_event event on event.seq = admission.event_seq
where admission.run_id = :run limit 1
