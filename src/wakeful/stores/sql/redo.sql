-- Replay, discard, and new runs of a family.

-- find_run_to_redo(id) --
select seq, id, root, state, error, app, agent, reason,
  (outcome is not null and committed_at is null)
    or not exists (select 1 from wakeful_effect effect where effect.root = wakeful_run.root and effect.state = 'held'),
  key, gathered, failed_with is not null and cancel_at is null, committed_at is not null
from wakeful_run where id = :id {for_update}

-- replay_run(now, seq, reason, data) --
-- As if it had never been tried, except for what is finished. The token rises, so that the next claim is not a first start. A committed
-- run stays committed and only releases what is left, unless other data is given: then everything is done again. A cancelled run is no
-- longer cancelled; a run that died while it was being undone continues with that. `~` before its version: it may continue with any
-- code.
update wakeful_run
set state = 'ready', reason = :reason, due_at = {now}, token = token + 1, attempts = 0, crashes = 0, started_at = null,
    finished_at = null, error = null, data = coalesce(:data, data), state_change = null, held_at = null, version = '~' || ltrim(version, '~'),
    failed_with = case when cancel_at is null then null else failed_with end,
    cancel_at = case when state = 'cancelled' then null else cancel_at end,
    cancel_by = case when state = 'cancelled' then null else cancel_by end,
    cancel_note = case when state = 'cancelled' then null else cancel_note end,
    output = case when committed_at is null or cast(:data as text) is not null then null else output end,
    outcome = case when committed_at is null or cast(:data as text) is not null then null else outcome end,
    committed_at = case when cast(:data as text) is not null then null else committed_at end
where seq = :seq

-- discard_run(now, seq, reason) --
update wakeful_run set state = 'cancelled', reason = :reason, finished_at = {now} where seq = :seq

-- clear_state_fact(run_seq) --
-- A replay reads the state of its agent again.
delete from wakeful_step where run_seq = :run_seq and key = 'state' and state = 'fact'

-- revive_staged(root, run_seq) --
-- A committed run that was discarded and is replayed after all: effects that it had not begun are to be done again.
update wakeful_effect set state = 'staged', reason = 'replayed', settled_at = null
where root = :root and run_seq = :run_seq and staged = 1 and state = 'abandoned' and settled_by is null

-- family_at_work(root, seq) --
-- Other runs of a family that have not ended: two at once would do the same effects side by side.
select cast(:seq as bigint), id from wakeful_run
where root = :root and id <> root and seq <> :seq and state in ('ready', 'running', 'waiting', 'held', 'parked')
union all
select cast(:seq as bigint), id from wakeful_run
where id = :root and seq <> :seq and state in ('ready', 'running', 'waiting', 'held', 'parked')

-- clear_failed_steps(run_seq) --
-- The rows that come back are stored with the remedy: a replay loses no error.
delete from wakeful_step where run_seq = :run_seq and state = 'failed' returning run_seq, name, error

-- clear_trouble(run_seq) --
-- A step that was being retried starts again, with a full retry period of its own.
delete from wakeful_step where run_seq = :run_seq and (state = 'retrying' or key = 'failing')

-- clear_failed_effects(root) --
-- Refused for good, or so it seemed: certainly not done, and may be retried.
update wakeful_effect set state = 'retrying', tries = 0, reason = 'replayed' where root = :root and state = 'failed'
returning root, action, error

-- count_family(root) --
-- How many there are in addition to the first: these have a small index of their own.
select cast(:root as text), count(*) from wakeful_run where root = :root and id <> root

-- data_of_run(seq) --
-- The data that a person gave it instead of its event's.
select seq, data from wakeful_run where seq = :seq

-- insert_again(now, id, seq, reason, data) --
-- A new run of the same family: the same event, the same agent, the same effects.
insert into wakeful_run (id, root, app, agent, event_seq, state, reason, due_at, created_at, data, key, priority, gathered)
select :id, root, app, agent, event_seq, 'ready', :reason, {now}, {now}, cast(:data as text), key, priority, gathered
from wakeful_run where seq = :seq
returning id, seq

-- insert_remedy(now, run_seq, verb, operator, note, data, error) --
insert into wakeful_remedy (run_seq, verb, operator, note, data, error, done_at)
values (:run_seq, :verb, :operator, :note, :data, :error, {now})
