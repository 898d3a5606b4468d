-- A further run of a family that begins in the middle.

-- step_position(run_seq, key) --
select position from wakeful_step where run_seq = :run_seq and key = :key

-- steps_to_copy(run_seq, position) --
-- What was finished before a step. What an agent keeps is read anew, and what was noted about its code was about the old run.
select key, name, state, position, tries, attempt, arguments, result, error, started_at, finished_at
from wakeful_step
where run_seq = :run_seq and position < :position and state in ('done', 'failed', 'fact')
  and not (state = 'fact' and (key in ('state', 'version', 'not asked for', 'failing') or key like 'version %'))
order by position, key

-- copy_step(run_seq, key, name, state, position, tries, attempt, arguments, result, error, started_at, finished_at) --
-- A step of another run. Its payloads are read and written, not copied by the database: they are bound to their rows.
insert into wakeful_step
  (run_seq, key, name, state, position, tries, attempt, arguments, result, error, started_at, finished_at)
values (:run_seq, :key, :name, :state, :position, :tries, :attempt, :arguments, :result, :error, :started_at, :finished_at)

-- waits_to_copy(run_seq, old_seq) --
-- The events that were taken by waits which it keeps: no later wait takes one of them again.
select key, app, type, subject, condition, variables, event_seq, settled, registered_at
from wakeful_wait before
where before.run_seq = :old_seq and before.event_seq is not null
  and exists (select 1 from wakeful_step step where step.run_seq = :run_seq and step.key = before.key)
order by key

-- copy_wait(run_seq, key, app, type, subject, condition, variables, event_seq, settled, registered_at) --
-- As copy_step.
insert into wakeful_wait
  (run_seq, key, app, type, subject, condition, variables, event_seq, settled, registered_at)
values (:run_seq, :key, :app, :type, :subject, :condition, :variables, :event_seq, :settled, :registered_at)

-- edit_step(run_seq, key, result) --
-- As if it had returned that.
update wakeful_step set state = 'done', result = :result, error = null where run_seq = :run_seq and key = :key
returning key

-- begin_in_the_middle(seq) --
-- The token rises, so that its first start is none: it has steps to be read.
update wakeful_run set token = token + 1 where seq = :seq
