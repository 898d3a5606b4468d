-- How other processes see that a process is gone before its lease expires: by the lock of its lease connection. On PostgreSQL only; on
-- SQLite a file lock tells. See postgres_presence.py.

-- renew_present(now, id, lease, guard) --
-- differs: exists only here. As renew_lease, with the lock that shows the process as connected, and the server that gave it: after a
-- restart of the server a free lock means nothing. Returns how many others have such a lock, how many of them come before this
-- process, and the session that answered.
update wakeful_process
set lease_until = {now} + :lease, guard = :guard,
    guard_server = case when cast(:guard as bigint) is null then null
      else cast(extract(epoch from pg_postmaster_start_time()) * 1000000 as bigint) end
where id = :id and state = 'alive'
returning id,
  (select count(*) from wakeful_process other where other.state = 'alive' and other.guard is not null and other.id <> :id),
  (select count(*) from wakeful_process other where other.state = 'alive' and other.guard is not null and other.id < :id),
  pg_backend_pid()

-- take_guard(guard) --
-- differs: exists only here. Held for as long as this session lasts.
select pg_try_advisory_lock(:guard)

-- session() --
-- differs: exists only here.
select pg_backend_pid()

-- gone_processes(own) --
-- differs: exists only here. Processes whose lock is free. The lock is taken for the time of this statement, and shared, so that two
-- lookers do not mistake each other for the process.
select id, guard from wakeful_process
where state = 'alive' and guard is not null and id <> :own
  and guard_server = cast(extract(epoch from pg_postmaster_start_time()) * 1000000 as bigint)
  and case when pg_try_advisory_xact_lock_shared(guard) then true else false end

-- bury_gone(id, guard) --
-- differs: exists only here. As bury_process, if its lock is still free and still the same: the process may be back.
update wakeful_process set state = 'dead'
where id = (
  select id from wakeful_process
  where id = :id and state = 'alive' and guard = :guard
    and guard_server = cast(extract(epoch from pg_postmaster_start_time()) * 1000000 as bigint)
    and case when pg_try_advisory_xact_lock_shared(guard) then true else false end
  for update skip locked
)
returning id

-- take_back_unopened(now, process) --
-- differs: exists only here. As take_back_runs, except for runs with a call that may be in flight: these wait until the lease expires.
-- `state || ''` keeps the planner from walking all open effects.
update wakeful_run run
set state = 'ready', reason = 'its process died', owner = null, due_at = {now}, token = token + 1, crashes = crashes + 1
where owner = :process and state = 'running'
  and not exists (
    select 1 from wakeful_effect effect
    where effect.root = run.root and effect.run_seq = run.seq and effect.state || '' = 'intent'
  )
returning seq, token, claimed_at
