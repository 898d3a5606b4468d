-- Cancelled runs: asked to stop, undone, ended.

-- find_run_to_cancel(id) --
select seq, id, root, app, agent, state, reason, outcome, committed_at, cancel_by, token, key, error, failed_with is not null and cancel_at is not null
from wakeful_run where id = :id {for_update}

-- seq_of_run(id) --
select seq from wakeful_run where id = :id

-- lock_run(seq) --
select seq from wakeful_run where seq = :seq {for_update}

-- done_outside(root, run_seq) --
-- Whether a worker must settle or undo any effect. An effect that was held before its first call does not count. Effects of a run of
-- the family that succeeded stay.
select 1 from wakeful_effect effect
where effect.root = :root and effect.undoes is null and effect.follows is null
  and (effect.state in ('confirmed', 'intent', 'unknown')
    or (effect.state = 'held' and (effect.tries > 0 or effect.doubtful = 1)))
  and (effect.run_seq = :run_seq
    or not exists (select 1 from wakeful_run run where run.seq = effect.run_seq and run.state = 'done'))
limit 1

-- effects_to_undo(root, run_seq) --
-- The effects that a run is responsible for, the latest first: its own, and those of runs of its family that did not succeed. An open
-- effect has no end time yet and counts as the latest.
select root, id, action, reference, safety, state, arguments, reason, result, error, tries, attempt, position, opened_at,
  settled_by, note, staged, coalesce(called_at, opened_at), coalesce(due_at, 0), doubtful, undoes,
  stored_before is not null, once, operation, follows, settlement, rule, policy, approval, executed
from wakeful_effect effect
where effect.root = :root and effect.follows is null
  and (effect.run_seq = :run_seq
    or not exists (select 1 from wakeful_run run where run.seq = effect.run_seq and run.state = 'done'))
order by coalesce(settled_at, 9223372036854775807) desc, seq desc

-- stop_to_undo(now, seq, operator, note, reason) --
-- A worker claims it, to settle and undo its effects. Its uncommitted output is dropped.
update wakeful_run
set state = 'ready', reason = :reason, due_at = {now}, parked_for = null, halted_for = null, gathering_since = null, state_change = null,
    output = case when committed_at is null then null else output end,
    outcome = case when committed_at is null then null else outcome end,
    cancel_at = {now}, cancel_by = :operator, cancel_note = :note
where seq = :seq

-- revive_to_undo(now, seq, operator, note, reason) --
-- As stop_to_undo, for a dead letter. Crashes are counted from zero again.
update wakeful_run
set state = 'ready', reason = :reason, due_at = {now}, crashes = 0, finished_at = null, error = null, failed_with = null,
    state_change = null, output = case when committed_at is null then null else output end,
    outcome = case when committed_at is null then null else outcome end,
    cancel_at = {now}, cancel_by = :operator, cancel_note = :note
where seq = :seq

-- undo_failed(now, seq, token, operator, note, failed_with, failed) --
-- A failed run continues with undoing its effects before it becomes a dead letter. No row comes back if it has another owner or is
-- already asked to stop.
update wakeful_run
set cancel_at = {now}, cancel_by = :operator, cancel_note = :note, failed_with = :failed_with, crashes = 0,
    attempts = attempts + :failed
where seq = :seq and token = :token and state = 'running' and cancel_at is null
returning seq

-- failed_with(seq) --
select failed_with from wakeful_run where seq = :seq

-- end_undoing(seq) --
-- Its effects are undone. `failed_with` stays: a replay knows by it that it must do everything again.
update wakeful_run set cancel_at = null, cancel_by = null, cancel_note = null where seq = :seq

-- undone_of_run(root, run_seq) --
select run_seq from wakeful_effect where root = :root and run_seq = :run_seq and state = 'undone' limit 1

-- forget_commit(seq) --
-- The commit relied on effects that are undone, so the handler runs again.
update wakeful_run set committed_at = null, output = null, outcome = null where seq = :seq

-- cancel_now(now, seq, operator, note, reason, outcome) --
update wakeful_run
set state = 'cancelled', reason = :reason, due_at = null, finished_at = {now}, parked_for = null, halted_for = null, gathering_since = null,
    state_change = null, outcome = :outcome, cancel_at = {now}, cancel_by = :operator, cancel_note = :note, failed_with = null
where seq = :seq

-- lanes_of_runs(seq) --
-- The keys that runs hold a place of.
select app, agent, key from wakeful_run where seq = :seq and key is not null and place is not null

-- caller_of_run(seq) --
-- The callers that wait for its end. A run that gathered several events may have several callers.
select parent_seq, parent_key from wakeful_run where seq = :seq and parent_seq is not null
union
select parent_seq, parent_key from wakeful_batch where run_seq = :seq and parent_seq is not null
union
select parent_seq, parent_key from wakeful_caller where run_seq = :seq

-- let_go_of_place(seq) --
update wakeful_run set place = null where seq = :seq and place is not null

-- withdraw_approvals(now, run_seq, note) --
update wakeful_approval set state = 'withdrawn', note = :note, answered_at = {now} where run_seq = :run_seq and state = 'open'
returning id, app, agent

-- give_up_retrying(now, root, run_seq, error) --
-- Certainly not done, and not retried.
update wakeful_effect set state = 'failed', error = :error, due_at = null, settled_at = {now}
where root = :root and run_seq = :run_seq and state = 'retrying' and undoes is null

-- withdraw_held(now, root, run_seq, reason) --
-- Held before its first call: no person needs to decide about it any more.
update wakeful_effect set state = 'abandoned', reason = :reason, settled_at = {now}
where root = :root and run_seq = :run_seq and state = 'held' and tries = 0 and doubtful = 0 and undoes is null

-- mark_undone(now, id, undone) --
-- In the same transaction as the effect that undid it.
update wakeful_effect set state = 'undone', reason = 'undone by ' || cast(:id as text), settled_at = {now}
where id = :undone and state = 'confirmed'
  and exists (select 1 from wakeful_effect undo where undo.id = :id and undo.state = 'confirmed')

-- children_at_work(parent_seq) --
-- Open runs that it called. A run that gathered other events too continues for those, and so does a run that other runs joined by
-- its `once=` key.
select seq, id from wakeful_run
where parent_seq = :parent_seq and gathered = 1 and state in ('ready', 'running', 'waiting', 'held', 'parked')
  and not exists (select 1 from wakeful_caller caller where caller.run_seq = wakeful_run.seq) order by seq

-- cancelled_children(parent_seq) --
-- Cancelled runs that it called, each with its note. The note may be encrypted, so the caller compares it.
select id, cancel_note from wakeful_run where parent_seq = :parent_seq and state = 'cancelled' order by seq

-- cancelled_runs(app, process) --
-- Runs of a process that are asked to stop.
select id, cancel_by, cancel_note from wakeful_run
where app = :app and owner = :process and state = 'running' and cancel_at is not null

-- lock_to_commit(seq, token) --
-- A request to stop waits from here on, or came before and is seen.
select seq from wakeful_run where seq = :seq and token = :token and state = 'running' and cancel_at is null {for_update}
