-- The course of a run: its steps, its attempts, and how it ends or is given back.

-- save_step(run_seq, token, key, name, state, position, tries, attempt, arguments, result, error, started_at, finished_at) --
-- Fenced by the run's token. Idempotent: after a COMMIT whose answer was lost, the same write is repeated.
insert into wakeful_step
  (run_seq, key, name, state, position, tries, attempt, arguments, result, error, started_at, finished_at)
select seq, :key, :name, :state, :position, :tries, :attempt, :arguments, :result, :error, :started_at, :finished_at
from wakeful_run where seq = :run_seq and token = :token and state = 'running'
on conflict (run_seq, key) do update
set state = excluded.state, tries = excluded.tries, attempt = excluded.attempt, result = excluded.result,
    error = excluded.error, finished_at = excluded.finished_at

-- clear_step(run_seq, token, key) --
-- A failed step whose error left the handler is executed again by the run's retry.
delete from wakeful_step where run_seq = :run_seq and key = :key and state in ('failed', 'fact')
and exists (select 1 from wakeful_run where seq = :run_seq and token = :token and state = 'running')

-- finish_well(now, seq, token, output, outcome) --
-- As finish_run, for a run that is done: it has no error and no reason. A run that is asked to stop does not finish: the request came
-- first.
update wakeful_run
set state = 'done', reason = null, owner = null, due_at = null, place = null, output = :output, error = null, outcome = :outcome,
    finished_at = {now}
where seq = :seq and token = :token and state = 'running' and cancel_at is null

-- finish_run(now, seq, token, state, reason, output, error, outcome, failed, stopping) --
-- `stopping`: its owner knows that it is asked to stop.
update wakeful_run
set state = :state, reason = :reason, owner = null, due_at = null, output = coalesce(:output, output), error = :error,
    outcome = :outcome, attempts = attempts + :failed, finished_at = {now}
where seq = :seq and token = :token and state = 'running' and (cancel_at is null or :stopping = 1)
returning seq

-- commit_run(now, seq, token, output, outcome) --
-- Its output is committed. It stays running, to release its staged effects.
update wakeful_run set output = :output, outcome = :outcome, committed_at = {now}
where seq = :seq and token = :token and state = 'running' and cancel_at is null
returning seq

-- hold_output(now, seq, token, output, outcome, reason, state_change) --
update wakeful_run
set state = 'held', reason = :reason, owner = null, due_at = null, output = :output, outcome = :outcome,
    state_change = :state_change, held_at = {now}
where seq = :seq and token = :token and state = 'running' and cancel_at is null
returning seq

-- note_held_at(now, seq) --
-- It waits for a person itself, neither for an effect nor for an approval.
update wakeful_run set held_at = {now} where seq = :seq and state = 'held'

-- close_run(now, seq, token, outcome) --
update wakeful_run
set state = 'done', reason = null, owner = null, due_at = null, place = null, error = null, outcome = :outcome, finished_at = {now}
where seq = :seq and token = :token and state = 'running' and cancel_at is null
returning seq

-- find_held_output(id) --
select seq, id, app, agent, state, outcome, committed_at, state_change, reason,
  exists (select 1 from wakeful_effect effect where effect.root = wakeful_run.root and effect.state || '' = 'held')
from wakeful_run where id = :id {for_update}

-- release_output(now, seq, reason, outcome) --
-- As if it had passed its checks: the run is claimed again to release its staged effects.
update wakeful_run
set state = 'ready', reason = :reason, due_at = {now}, committed_at = {now}, outcome = :outcome, state_change = null
where seq = :seq and state = 'held'

-- leave_run(now, seq, token, state, reason, delay, error, failed, stopping) --
-- Gives a run back, to be claimed again at once or after a delay. A run that is asked to stop is not put away before its owner knows that
-- (`stopping`).
update wakeful_run
set state = :state, reason = :reason, owner = null, due_at = {now} + :delay, error = :error,
    attempts = attempts + :failed
where seq = :seq and token = :token and state = 'running' and (cancel_at is null or :stopping = 1)
returning seq

-- insert_attempt(now, run_seq, token, process, outcome, error, started_at) --
insert into wakeful_attempt (run_seq, token, process, outcome, error, started_at, ended_at)
values (:run_seq, :token, :process, :outcome, :error, :started_at, {now})
on conflict (run_seq, token) do nothing
