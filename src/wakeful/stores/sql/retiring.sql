-- Apps: which exist, what waits in each, and which are retired.

-- insert_retired(now, app, operator, note) --
-- No row comes back if it is already retired.
insert into wakeful_retired (app, retired_at, retired_by, note) values (:app, {now}, :operator, :note)
on conflict (app) do nothing
returning app

-- remove_retired(app) --
delete from wakeful_retired where app = :app returning app

-- list_retired() --
select app, retired_at, retired_by, note from wakeful_retired order by app

-- find_retired(app) --
select retired_at, retired_by, note from wakeful_retired where app = :app

-- workers_of_apps(now) --
select app, count(*) from wakeful_process
where app is not null and state = 'alive' and lease_until > {now} group by app

-- schedules_of_apps() --
select app, count(*) from wakeful_schedule where state in ('live', 'paused') group by app

-- schedules_to_close(app) --
select name from wakeful_schedule where app = :app and state in ('live', 'paused') order by name

-- alarms_of_apps() --
select app, count(*) from wakeful_alarm where state <> 'resolved' group by app

-- unfinished_of_app(app) --
-- By the indexes of unfinished runs.
select 'ready', count(*) from wakeful_run where app = :app and state in ('ready', 'waiting') and state = 'ready'
union all
select 'waiting', count(*) from wakeful_run where app = :app and state in ('ready', 'waiting') and state = 'waiting'
union all select 'running', count(*) from wakeful_run where app = :app and state = 'running'
union all select 'parked', count(*) from wakeful_run where app = :app and state = 'parked'
union all select 'held', count(*) from wakeful_run where app = :app and state = 'held'
union all select 'dead', count(*) from wakeful_run where app = :app and state = 'dead'

-- runs_to_close(app, after, most) --
-- Unfinished runs, the oldest first. `after` is the seq of the last one seen.
select seq, id, state from (
  select seq, id, state from wakeful_run where app = :app and state in ('ready', 'waiting')
  union all select seq, id, state from wakeful_run where app = :app and state = 'running'
  union all select seq, id, state from wakeful_run where app = :app and state = 'parked'
  union all select seq, id, state from wakeful_run where app = :app and state = 'held'
) run where seq > :after order by seq limit :most

-- deliveries_to_close(app, after, most) --
select seq, id from wakeful_delivery where app = :app and state = 'pending' and seq > :after order by seq limit :most

-- alarms_to_close(app) --
select key from wakeful_alarm where app = :app and state <> 'resolved' order by key
