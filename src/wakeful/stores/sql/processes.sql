-- Processes and their leases.

-- register_process(now, id, host, pid, lease, app, agents, knows, versions) --
insert into wakeful_process (id, host, pid, state, started_at, lease_until, app, agents, knows, versions)
values (:id, :host, :pid, 'alive', {now}, {now} + :lease, :app, :agents, :knows, :versions)
on conflict (id) do nothing

-- renew_lease(now, id, lease) --
-- No row comes back if another process has declared this one dead: it must start again under a new identity.
update wakeful_process set lease_until = {now} + :lease where id = :id and state = 'alive' returning id

-- retire_process(id) --
update wakeful_process set state = 'stopped' where id = :id and state = 'alive'

-- living_processes(now) --
-- The processes that count as alive, and the rest of each lease. A process that was seen to be gone (bury_gone) stays here until its lease
-- expires: some of its runs are still to be taken back.
select id, lease_until - {now} from wakeful_process where state = 'alive' or (state = 'dead' and guard is not null)

-- bury_process(id) --
-- Declares a process dead. No row comes back if another process was first.
update wakeful_process set state = 'dead', guard = null
where id = :id and (state = 'alive' or (state = 'dead' and guard is not null)) returning id

-- bury_expired(now, id) --
-- As bury_process, but only if its lease has expired: it may have been renewed since it was read.
update wakeful_process set state = 'dead', guard = null
where id = :id and (state = 'alive' or (state = 'dead' and guard is not null)) and lease_until <= {now} returning id
