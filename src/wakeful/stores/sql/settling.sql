-- People settle effects: the type that a result must match, and corrections of a given result.

-- declare_action(now, app, reference, name, returns) --
-- The result type of an action, stored by each process before its first call of it.
insert into wakeful_action (app, reference, name, returns, declared_at) values (:app, :reference, :name, :returns, {now})
on conflict (app, reference) do update
set name = excluded.name, returns = excluded.returns, declared_at = excluded.declared_at
where wakeful_action.returns is distinct from excluded.returns or wakeful_action.name <> excluded.name

-- result_wanted(id) --
-- The type that an effect's result must match. The result of an undo is never read.
select action.returns, effect.staged
from wakeful_effect effect
join wakeful_action action on action.app = effect.app and action.reference = effect.reference
where effect.id = :id and effect.undoes is null

-- held_effects(agent, action) --
-- Effects that wait for a person, the oldest first.
select effect.id, effect.agent, effect.action, run.id, effect.tries > 0 or effect.doubtful = 1, effect.opened_at,
  effect.reason, effect.staged, case when effect.undoes is null then action.returns end
from wakeful_effect effect join wakeful_run run on run.seq = effect.run_seq
left join wakeful_action action on action.app = effect.app and action.reference = effect.reference
where effect.state = 'held' and (cast(:agent as text) is null or effect.agent = :agent)
  and (cast(:action as text) is null or effect.action = :action)
order by effect.seq

-- stored_of_family(root) --
-- What the runs of a family have stored that may depend on an effect's result.
select 'step ' || cast(run_seq as text) || ' ' || key from wakeful_step
where state in ('done', 'waiting') and run_seq in (
  select seq from wakeful_run where id = :root union all select seq from wakeful_run where root = :root and id <> root)
union all
select 'effect ' || id from wakeful_effect where root = :root
union all
select 'done ' || id from wakeful_run where id = :root and (state = 'done' or committed_at is not null)
union all
select 'done ' || id from wakeful_run where root = :root and id <> root and (state = 'done' or committed_at is not null)

-- note_stored_before(id, digest) --
update wakeful_effect set stored_before = :digest where id = :id

-- stored_before(id) --
select stored_before from wakeful_effect where id = :id and state = 'confirmed'

-- lock_family_of_effect(root) --
-- None of them can be claimed until the correction is stored.
select id, state from wakeful_run
where seq in (
  select seq from wakeful_run where id = :root union all select seq from wakeful_run where root = :root and id <> root)
order by seq {for_update}

-- correct_effect(now, id, result, operator, note) --
update wakeful_effect set result = :result, settled_by = :operator, note = :note, settled_at = {now}
where id = :id and state = 'confirmed'

-- lock_reasons_of_family(root) --
-- As lock_family_of_effect, with the reason of each run.
select state, reason from wakeful_run
where seq in (
  select seq from wakeful_run where id = :root union all select seq from wakeful_run where root = :root and id <> root)
order by seq {for_update}

-- settle_effect_anew(now, id, state, result, operator, note, settlement) --
-- As settle_effect, for an effect in any state: no stored decision explains it, and its run is held and locked.
update wakeful_effect
set state = :state, result = case when cast(:state as text) = 'confirmed' then coalesce(:result, result) end, settled_by = :operator,
    note = :note, settlement = :settlement, settled_at = {now}, due_at = null,
    doubtful = case when cast(:state as text) = 'retrying' then 0 else doubtful end,
    error = case when cast(:state as text) = 'retrying' then null else error end
where id = :id
returning root, undoes

-- mark_not_undone(id) --
-- The effect that undoes it was settled anew, as not done.
update wakeful_effect set state = 'confirmed', reason = null where id = :id and state = 'undone'
