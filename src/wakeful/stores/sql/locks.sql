-- Locks that runs hold, by name. The holder frees its lock; without that, the lock is free once its run no longer runs under the token
-- that it had.

-- look_at_lock(app, name) --
-- The holder, read without waiting for any transaction. No row comes back if the lock is free.
select holder.id, holder.agent, lock.taken_at, lock.run_seq, lock.run_token
from wakeful_lock lock join wakeful_run holder on holder.seq = lock.run_seq
where lock.app = :app and lock.name = :name and holder.token = lock.run_token and holder.state = 'running'

-- make_lock(now, app, name) --
insert into wakeful_lock (app, name, token, taken_at) values (:app, :name, 0, {now})
on conflict (app, name) do nothing

-- find_lock(app, name) --
-- Locked until the commit. It waits for transactions that commit inside the lock.
select run_seq, run_token from wakeful_lock where app = :app and name = :name {for_update}

-- take_lock(now, app, name, run_seq, run_token) --
-- The token is the fence: it rises with every holder.
update wakeful_lock set token = token + 1, run_seq = :run_seq, run_token = :run_token, taken_at = {now}
where app = :app and name = :name
  and exists (select 1 from wakeful_run where seq = :run_seq and token = :run_token and state = 'running')
returning token

-- free_lock(app, name, run_seq, run_token) --
update wakeful_lock set run_seq = null, run_token = null
where app = :app and name = :name and run_seq = :run_seq and run_token = :run_token

-- check_lock(app, name, token, run_seq, run_token) --
-- Whether it is still the lock that was taken. No other run can take it before this transaction ends.
select app, name, token from wakeful_lock
where app = :app and name = :name and token = :token and run_seq = :run_seq and run_token = :run_token {for_key_share}

-- wait_for_lock(now, app, name, run_seq, run_token) --
-- Recorded only for people to see.
insert into wakeful_lock_wait (run_seq, name, app, run_token, since) values (:run_seq, :name, :app, :run_token, {now})
on conflict (run_seq, name) do update set run_token = excluded.run_token, since = excluded.since
where wakeful_lock_wait.run_token <> excluded.run_token

-- end_wait_for_lock(run_seq, name) --
delete from wakeful_lock_wait where run_seq = :run_seq and name = :name

-- list_locks() --
select lock.app, lock.name, lock.token, holder.id as run, holder.agent, lock.taken_at,
  (select count(*) from wakeful_lock_wait waiting join wakeful_run waiter on waiter.seq = waiting.run_seq
   where waiting.app = lock.app and waiting.name = lock.name and waiter.token = waiting.run_token
     and waiter.state = 'running') as waiting
from wakeful_lock lock join wakeful_run holder on holder.seq = lock.run_seq
where holder.token = lock.run_token and holder.state = 'running'
order by lock.app, lock.name

-- waits_for_locks(run) --
-- The locks that a run waits for, and the run that has each.
select waiting.name, waiting.since, holder.id as run, holder.agent, lock.taken_at
from wakeful_lock_wait waiting
join wakeful_run waiter on waiter.seq = waiting.run_seq and waiter.token = waiting.run_token and waiter.state = 'running'
left join wakeful_lock lock on lock.app = waiting.app and lock.name = waiting.name
left join wakeful_run holder on holder.seq = lock.run_seq and holder.token = lock.run_token and holder.state = 'running'
where waiting.run_seq = (select seq from wakeful_run where id = :run)
order by waiting.name
