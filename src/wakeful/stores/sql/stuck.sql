-- Runs that get nowhere: the alarms about them are raised and resolved by the process that has them, as long as it lives.

-- resolve_stuck(now, app) --
-- Those of runs that do not run any more, or that another process has taken up since.
update wakeful_alarm set state = 'resolved', last_at = {now}
where app = :app and state <> 'resolved' and substr(key, 1, 6) = 'stuck/'
  and not exists (
    select 1 from wakeful_run run
    where run.app = :app and run.state = 'running' and run.claimed_at <= wakeful_alarm.last_at
      and wakeful_alarm.key = 'stuck/' || run.app || '/' || run.agent || '/' || run.id
  )
