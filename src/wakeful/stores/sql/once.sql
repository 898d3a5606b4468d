-- Once per business key.

-- take_once(now, app, agent, key, run_id, span) --
-- A key that no run has, or whose time is over. No row comes back for one that another run has; PostgreSQL waits for a
-- transaction that is just taking it.
insert into wakeful_once (app, agent, key, run_id, taken_at, expires_at)
values (:app, :agent, :key, :run_id, {now}, {now} + cast(:span as bigint))
on conflict (app, agent, key) do update
set run_id = excluded.run_id, taken_at = excluded.taken_at, expires_at = excluded.expires_at
where wakeful_once.expires_at <= excluded.taken_at
returning app, agent, key

-- find_once(app, agent, key) --
-- Which run has it, and what has become of that one; null when it is not stored any more.
select once.app, once.agent, once.key, once.run_id, (select run.state from wakeful_run run where run.id = once.run_id)
from wakeful_once once where once.app = :app and once.agent = :agent and once.key = :key

-- join_admission(event_seq, agent, run_id, reason) --
-- A stored event that was handed to an agent whose key another run has.
update wakeful_admission set state = 'joined', run_id = :run_id, reason = :reason
where event_seq = :event_seq and agent = :agent

-- lock_joined(id) --
-- The run that was joined, so that it does not end before its new caller is noted.
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
-- Keys whose time is over, unless it is not known yet what became of the operation: runs that ask for it still wait for that.
delete from wakeful_operation_key where (app, action, key) in (
  select operation.app, operation.action, operation.key from wakeful_operation_key operation
  where operation.app = :app and operation.expires_at <= {now} and not exists (
    select 1 from wakeful_effect effect where effect.id = operation.effect_id
      and effect.state in ('staged', 'intent', 'retrying', 'unknown', 'held')
  )
  order by operation.expires_at limit :most
)
returning key
