-- Queries about cancelled runs that must differ on PostgreSQL.

-- done_outside(root, run_seq) --
-- differs: `state || ''` keeps the planner from the index of all effects in these states.
select 1 from wakeful_effect effect
where effect.root = :root and effect.undoes is null and effect.follows is null
  and (effect.state || '' in ('confirmed', 'intent', 'unknown')
    or (effect.state || '' = 'held' and (effect.tries > 0 or effect.doubtful = 1)))
  and (effect.run_seq = :run_seq
    or not exists (select 1 from wakeful_run run where run.seq = effect.run_seq and run.state || '' = 'done'))
limit 1

-- effects_to_undo(root, run_seq) --
-- differs: as done_outside.
select root, id, action, reference, safety, state, arguments, reason, result, error, tries, attempt, position, opened_at,
  settled_by, note, staged, coalesce(called_at, opened_at), coalesce(due_at, 0), doubtful, undoes,
  stored_before is not null, once, operation, follows, settlement, rule, policy, approval, executed
from wakeful_effect effect
where effect.root = :root and effect.follows is null
  and (effect.run_seq = :run_seq
    or not exists (select 1 from wakeful_run run where run.seq = effect.run_seq and run.state || '' = 'done'))
order by coalesce(settled_at, 9223372036854775807) desc, seq + 0 desc

-- withdraw_approvals(now, run_seq, note) --
-- differs: as done_outside.
update wakeful_approval set state = 'withdrawn', note = :note, answered_at = {now}
where run_seq = :run_seq and state || '' = 'open'
returning id, app, agent

-- give_up_retrying(now, root, run_seq, error) --
-- differs: as done_outside.
update wakeful_effect set state = 'failed', error = :error, due_at = null, settled_at = {now}
where root = :root and run_seq = :run_seq and state || '' = 'retrying' and undoes is null

-- withdraw_held(now, root, run_seq, reason) --
-- differs: as done_outside.
update wakeful_effect set state = 'abandoned', reason = :reason, settled_at = {now}
where root = :root and run_seq = :run_seq and state || '' = 'held' and tries = 0 and doubtful = 0 and undoes is null

-- children_at_work(parent_seq) --
-- differs: as done_outside.
select seq, id from wakeful_run
where parent_seq = :parent_seq and gathered = 1 and state || '' in ('ready', 'running', 'waiting', 'held', 'parked')
  and not exists (select 1 from wakeful_caller caller where caller.run_seq = wakeful_run.seq) order by seq + 0

-- cancelled_children(parent_seq) --
-- differs: as done_outside.
select id, cancel_note from wakeful_run
where parent_seq = :parent_seq and state || '' = 'cancelled' order by seq + 0

-- lock_to_commit(seq, token) bulk --
-- differs: as save_step. Always in the same order.
select run.seq
from unnest(cast(:seq as bigint[]), cast(:token as bigint[])) as given (seq, token)
join wakeful_run run on run.seq = any(array[given.seq]) and run.token = given.token and run.owner is not null
  and run.cancel_at is null
order by run.seq + 0 for update of run

-- undone_of_run(root, run_seq) --
-- differs: as done_outside.
select run_seq from wakeful_effect where root = :root and run_seq = :run_seq and state || '' = 'undone' limit 1
