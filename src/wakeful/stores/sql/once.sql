-- Once per business key.

-- take_once(now, app, agent, key, run_id, span) --
-- Takes a key that is free or expired. No row comes back if another run has it; PostgreSQL waits for a transaction that is just
-- taking it.
insert into wakeful_once (app, agent, key, run_id, taken_at, expires_at)
values (:app, :agent, :key, :run_id, {now}, {now} + cast(:span as bigint))
on conflict (app, agent, key) do update
set run_id = excluded.run_id, taken_at = excluded.taken_at, expires_at = excluded.expires_at
where wakeful_once.expires_at <= excluded.taken_at
returning app, agent, key

-- find_once(app, agent, key) --
-- The run that has it, and that run's state; null if the run is no longer stored.
select once.app, once.agent, once.key, once.run_id, (select run.state from wakeful_run run where run.id = once.run_id)
from wakeful_once once where once.app = :app and once.agent = :agent and once.key = :key

-- join_admission(event_seq, agent, run_id, reason) --
-- A stored event was handed to an agent, and another run has its key.
update wakeful_admission set state = 'joined', run_id = :run_id, reason = :reason
where event_seq = :event_seq and agent = :agent

-- lock_joined(id) --
-- Locks the joined run, so that it does not end before its new caller is recorded.
select seq from wakeful_run where id = :id {for_update}

-- adopt_joined(run_seq, parent_seq, parent_key) --
insert into wakeful_caller (run_seq, parent_seq, parent_key) values (:run_seq, :parent_seq, :parent_key)
on conflict (run_seq, parent_seq, parent_key) do nothing

-- callers_by_key(run_seq) --
select run_seq, parent_seq, parent_key from wakeful_caller where run_seq = :run_seq order by parent_seq, parent_key

-- remove_callers(run_seq) --
delete from wakeful_caller where run_seq = :run_seq

-- remove_once(now, app, most) --
delete from wakeful_once where (app, agent, key) in (
  select app, agent, key from wakeful_once where app = :app and expires_at <= {now} order by expires_at limit :most
)
returning key

-- remove_operation_keys(now, app, most) --
-- Expired keys, except those whose operation is not finished: runs that asked for it still wait for the result.
delete from wakeful_operation_key where (app, action, key) in (
  select operation.app, operation.action, operation.key from wakeful_operation_key operation
  where operation.app = :app and operation.expires_at <= {now} and not exists (
    select 1 from wakeful_effect effect where effect.id = operation.effect_id
      and effect.state in ('staged', 'waiting', 'intent', 'retrying', 'unknown', 'held')
  )
  order by operation.expires_at limit :most
)
returning key

-- make_operation_key(now, app, action, key) --
-- Creates the row of a key, to be locked. No effect has it yet.
insert into wakeful_operation_key (app, action, key, effect_id, taken, taken_at, expires_at)
values (:app, :action, :key, '', 0, {now}, 0)
on conflict (app, action, key) do nothing

-- lock_operation_key(now, app, action, key) --
-- The effect that has it, how often it was taken, and whether it has expired. Locked until the commit.
select effect_id, taken, case when expires_at <= {now} then 1 else 0 end from wakeful_operation_key
where app = :app and action = :action and key = :key {for_update}

-- lock_keys_of_effect(effect_id) --
select effect_id from wakeful_operation_key where effect_id = :effect_id {for_update}

-- take_operation_key(now, app, action, key, effect_id, taken, span) --
update wakeful_operation_key
set effect_id = :effect_id, taken = :taken, taken_at = {now}, expires_at = {now} + cast(:span as bigint)
where app = :app and action = :action and key = :key

-- holder_of_key(id, undo) --
-- The effect that has a key, its run, and the state of the effect that undoes it, if there is one.
select effect.id, effect.state, effect.settled_by, effect.note, effect.result, effect.arguments, run.id, run.state,
  (select undo.state from wakeful_effect undo where undo.id = :undo),
  case when effect.approval is not null and effect.settlement is null then 1 else 0 end
from wakeful_effect effect join wakeful_run run on run.seq = effect.run_seq where effect.id = :id

-- open_once_effect(now, id, root, run_seq, token, app, agent, action, reference, safety, state, reason, arguments, result, attempt, position, staged, settled_by, note, once, operation, follows, rule, policy) --
-- As insert_effect, for an action with a business key: an intent, or an effect that follows the key's holder. An effect that was not
-- begun, or followed another, is opened again; a follower keeps the time since when it waits.
insert into wakeful_effect
  (id, root, run_seq, app, agent, action, reference, safety, state, reason, arguments, result, tries, attempt, position, opened_at,
  staged, settled_at, settled_by, note, once, operation, follows, rule, policy)
select :id, :root, seq, :app, :agent, :action, :reference, :safety, :state, :reason, :arguments, :result, 0,
  cast(:attempt as bigint), cast(:position as bigint), {now}, cast(:staged as bigint),
  case when cast(:state as text) in ('confirmed', 'abandoned') then {now} end, :settled_by, :note, :once, :operation, :follows,
  :rule, :policy
from wakeful_run where seq = :run_seq and token = :token and state || '' = 'running' and cancel_at is null
on conflict (id) do update
set state = excluded.state, reason = excluded.reason, run_seq = excluded.run_seq, result = excluded.result, error = null, tries = 0,
    attempt = excluded.attempt, due_at = null, doubtful = 0, settled_at = excluded.settled_at, settled_by = excluded.settled_by,
    note = excluded.note, once = excluded.once, operation = excluded.operation, follows = excluded.follows,
    rule = excluded.rule, policy = excluded.policy,
    opened_at = case when wakeful_effect.follows is not null and excluded.follows is not null then wakeful_effect.opened_at
      else excluded.opened_at end
where wakeful_effect.state in ('staged', 'waiting', 'retrying') or (wakeful_effect.state = 'abandoned' and wakeful_effect.settled_by is null)
returning id, opened_at

-- follow_effect(holder, effect_id, run_seq) --
insert into wakeful_follower (holder, effect_id, run_seq) values (:holder, :effect_id, :run_seq)
on conflict (holder, effect_id) do update set run_seq = excluded.run_seq

-- followers_of(holder) --
select follower.effect_id, follower.run_seq, effect.arguments
from wakeful_follower follower join wakeful_effect effect on effect.id = follower.effect_id
where follower.holder = :holder and effect.follows = :holder and effect.state || '' = 'retrying' order by follower.run_seq

-- answer_follower(now, id, follows, result, reason) --
update wakeful_effect set state = 'confirmed', result = :result, reason = :reason, due_at = null, settled_at = {now}
where id = :id and follows = :follows and state || '' = 'retrying'

-- forget_followers(holder) --
delete from wakeful_follower where holder = :holder

-- holders_not_over(effect_id, undo) --
-- Effects that have their key and are not over, or are being undone.
select operation.effect_id from wakeful_operation_key operation join wakeful_effect effect on effect.id = operation.effect_id
where operation.effect_id = :effect_id and (
  effect.state || '' in ('waiting', 'intent', 'retrying', 'unknown', 'held')
  or effect.state || '' = 'confirmed' and exists (
    select 1 from wakeful_effect undo where undo.id = :undo and undo.state || '' in ('intent', 'retrying', 'unknown', 'held')
  )
)

-- run_that_counts_on(follows, run_seq) --
-- Another run that got the result of an effect by its key and did not fail: the effect must not be undone.
select run.id from wakeful_effect effect join wakeful_run run on run.seq = effect.run_seq
where effect.follows = :follows and effect.state = 'confirmed' and effect.run_seq <> :run_seq
  and run.state not in ('dead', 'denied', 'cancelled') and run.cancel_at is null
order by run.seq limit 1

-- follower_that_has(follows) --
-- A run that got the result of an effect by its key: a person can no longer correct it.
select run.id from wakeful_effect effect join wakeful_run run on run.seq = effect.run_seq
where effect.follows = :follows and effect.state = 'confirmed' limit 1
