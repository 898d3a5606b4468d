-- The ledger of effects: staged, opened as an intent, saved, settled by a person.

-- stage_effect(now, id, root, run_seq, token, app, agent, action, reference, safety, arguments, attempt, position) --
-- To be released once the run is committed. An effect that was staged before and never begun is staged again.
insert into wakeful_effect
  (id, root, run_seq, app, agent, action, reference, safety, state, arguments, tries, attempt, position, opened_at, staged)
select :id, :root, seq, :app, :agent, :action, :reference, :safety, 'staged', :arguments, 0, :attempt, :position, {now}, 1
from wakeful_run where seq = :run_seq and token = :token and state = 'running'
on conflict (id) do update
set state = 'staged', run_seq = excluded.run_seq, position = excluded.position, attempt = excluded.attempt, reason = null,
    staged = 1, opened_at = excluded.opened_at
where wakeful_effect.state = 'staged' or (wakeful_effect.state = 'abandoned' and wakeful_effect.settled_by is null)

-- drop_effect(now, id, run_seq, token) --
-- Staged by an earlier commit of the run, certainly not done, and no longer asked for.
update wakeful_effect set state = 'abandoned', reason = 'not asked for again', settled_at = {now}
where id = :id and staged = 1 and state in ('staged', 'retrying')
  and exists (select 1 from wakeful_run where seq = :run_seq and token = :token and state = 'running')

-- open_staged_effect(now, id, run_seq, token, state, reason, tries, attempt, rule, policy) --
-- Its turn has come: from staged to an intent, or held.
update wakeful_effect
set state = :state, reason = :reason, tries = :tries, attempt = :attempt, opened_at = {now}, rule = :rule, policy = :policy
where id = :id and (state = 'staged' or (state = 'abandoned' and settled_by is null))
  and exists (select 1 from wakeful_run where seq = :run_seq and token = :token and state = 'running' and cancel_at is null)
returning id, opened_at

-- abandon_staged(now, root, run_seq, reason) --
-- Never begun, and not to be begun: staged, or waiting for an approval.
update wakeful_effect set state = 'abandoned', reason = :reason, settled_at = {now}
where root = :root and run_seq = :run_seq and state in ('staged', 'waiting')

-- insert_effect(now, id, root, run_seq, token, app, agent, action, reference, safety, state, reason, arguments, tries, attempt, position, undoes, rule, policy) --
-- The intent, before the call. Fenced by the run's token. No row comes back if the effect exists, the claim is lost, or the run is asked
-- to stop: then it begins only effects that undo others.
insert into wakeful_effect
  (id, root, run_seq, app, agent, action, reference, safety, state, reason, arguments, tries, attempt, position, opened_at,
  undoes, rule, policy)
select :id, :root, seq, :app, :agent, :action, :reference, :safety, :state, :reason, :arguments, :tries, :attempt,
  :position, {now}, :undoes, :rule, :policy
from wakeful_run where seq = :run_seq and token = :token and state = 'running'
  and (cancel_at is null or cast(:undoes as text) is not null)
on conflict (id) do nothing
returning id, opened_at

-- save_effect(now, id, run_seq, token, state, reason, result, error, tries, attempt, due_at, doubtful, rule, policy) --
-- The result. A confirmed effect and one that a person settled stay as they are; but if the result that a person gave does not match, the
-- effect is held again.
update wakeful_effect
set state = :state, reason = :reason, result = :result, error = :error, tries = :tries, attempt = :attempt,
    run_seq = :run_seq, due_at = :due_at, doubtful = :doubtful, rule = :rule, policy = :policy,
    called_at = case when cast(:state as text) = 'intent' then {now} else called_at end,
    settled_at = case when cast(:state as text) in ('confirmed', 'failed') then {now} end
where id = :id
  and (state not in ('confirmed', 'abandoned', 'undone')
    or (state = 'confirmed' and settled_by is not null and cast(:state as text) = 'held'))
  and exists (select 1 from wakeful_run where seq = :run_seq and token = :token and state = 'running')
returning id

-- load_effects(root) --
select root, id, action, reference, safety, state, arguments, reason, result, error, tries, attempt, position, opened_at,
  settled_by, note, staged, coalesce(called_at, opened_at), coalesce(due_at, 0), doubtful, undoes,
  stored_before is not null, once, operation, follows, settlement, rule, policy, approval, executed
from wakeful_effect where root = :root order by position, seq

-- find_effect(id) --
select effect.root, effect.id, effect.action, effect.reference, effect.safety, effect.state, effect.arguments,
  effect.reason, effect.result, effect.error, effect.tries, effect.attempt, effect.position, effect.opened_at,
  effect.settled_by, effect.note, effect.staged, coalesce(effect.called_at, effect.opened_at), coalesce(effect.due_at, 0),
  effect.doubtful, effect.undoes, effect.stored_before is not null, effect.once, effect.operation,
  effect.follows, effect.settlement, effect.rule, effect.policy, effect.approval, effect.executed, run.id
from wakeful_effect effect join wakeful_run run on run.seq = effect.run_seq where effect.id = :id

-- settle_effect(now, id, state, result, operator, note, settlement) --
-- A person's answer. The first one counts: no row comes back for a second. Open effects of an ended run can be settled too.
update wakeful_effect
set state = :state, result = coalesce(:result, result), settled_by = :operator, note = :note, settlement = :settlement,
    settled_at = {now}, due_at = null, doubtful = case when cast(:state as text) = 'retrying' then 0 else doubtful end,
    error = case when cast(:state as text) = 'retrying' then null else error end
where id = :id
  and (state = 'held' or (state in ('intent', 'unknown') and exists (
    select 1 from wakeful_run run where run.seq = wakeful_effect.run_seq and run.state in ('dead', 'denied', 'cancelled'))))
returning root, undoes

-- release_held_runs(now, root) --
-- Held runs of a family resume once no effect of it is held any more. The time they were held does not count for their deadline. A held
-- output has an outcome and is not committed: it keeps waiting.
update wakeful_run
set state = 'ready', reason = 'a person settled what it was held for', due_at = {now},
    started_at = started_at + ({now} - coalesce(due_at, {now}))
where seq in (
    select seq from wakeful_run where id = :root union all select seq from wakeful_run where root = :root and id <> root
  )
  and state = 'held' and (outcome is null or committed_at is not null)
  and not exists (select 1 from wakeful_effect effect where effect.root = :root and effect.state = 'held')
returning app, agent, id, seq
