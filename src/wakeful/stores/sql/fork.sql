-- Fork: a new run of a family that begins in the middle.

-- step_position(run_seq, key) --
select position from wakeful_step where run_seq = :run_seq and key = :key

-- steps_to_copy(run_seq, position) --
-- What was finished before a step. The agent's state is read again, facts for policy are told again, and facts about code versions belong to
-- the old run only. So do answers about its effects: the new run asks anew.
select key, name, state, position, tries, attempt, arguments, result, error, started_at, finished_at
from wakeful_step
where run_seq = :run_seq and position < :position and state in ('done', 'failed', 'fact')
  and not (key like 'approve %' and key in (select asked.key from wakeful_approval asked where asked.run_seq = :run_seq and asked.kind = 'effect'))
  and not (state = 'fact' and (key in ('state', 'facts', 'version', 'not asked for', 'failing') or key like 'version %'))
order by position, key

-- copy_step(run_seq, key, name, state, position, tries, attempt, arguments, result, error, started_at, finished_at) --
-- A step of another run. Its payloads are read and written again, because they are bound to their rows and the database cannot copy them.
insert into wakeful_step
  (run_seq, key, name, state, position, tries, attempt, arguments, result, error, started_at, finished_at)
values (:run_seq, :key, :name, :state, :position, :tries, :attempt, :arguments, :result, :error, :started_at, :finished_at)

-- waits_to_copy(run_seq, old_seq) --
-- Events that ended waits of the kept steps: no later wait may take one of them again.
select key, app, type, subject, condition, variables, event_seq, settled, registered_at
from wakeful_wait before
where before.run_seq = :old_seq and before.event_seq is not null
  and exists (select 1 from wakeful_step step where step.run_seq = :run_seq and step.key = before.key)
order by key

-- copy_wait(run_seq, key, app, type, subject, condition, variables, event_seq, settled, registered_at) --
-- As copy_step, for a wait.
insert into wakeful_wait
  (run_seq, key, app, type, subject, condition, variables, event_seq, settled, registered_at)
values (:run_seq, :key, :app, :type, :subject, :condition, :variables, :event_seq, :settled, :registered_at)

-- edit_step(run_seq, key, result) --
-- As if the step had returned this result.
update wakeful_step set state = 'done', result = :result, error = null where run_seq = :run_seq and key = :key
returning key

-- begin_in_the_middle(seq) --
-- The token rises, so that its first claim does not count as a first start: it has steps to load.
update wakeful_run set token = token + 1 where seq = :seq
