-- Queries about circuits that must differ on PostgreSQL.

-- unpark_runs(now, app, name, most, reason) --
-- differs: its index is on `seq + 0`; `= any(array(…))` as in claim_runs. A run that another transaction is changing, to cancel it, is
-- skipped.
update wakeful_run
set state = 'ready', reason = :reason, parked_for = null, due_at = {now},
    started_at = started_at + ({now} - coalesce(due_at, {now}))
where seq = any(array(
  select seq from wakeful_run where app = :app and parked_for = :name and state = 'parked'
  order by seq + 0 limit :most
  for update skip locked
))
returning seq

-- unpark_probe(now, app, name, most, reason) --
-- differs: as unpark_runs.
update wakeful_run
set state = 'ready', reason = :reason, parked_for = null, due_at = {now},
    started_at = started_at + ({now} - coalesce(due_at, {now}))
where seq = any(array(
  select seq from wakeful_run run where app = :app and parked_for = :name and state = 'parked'
    and not exists (
      select 1 from wakeful_pause pause where pause.app = :app and pause.agent in ('', run.agent) and pause.paused = 1)
    and not exists (
      select 1 from wakeful_halt halt where halt.app = :app and halt.agent in ('', run.agent) and halt.action = '')
  order by seq + 0 limit :most
  for update of run skip locked
))
returning seq

-- note_parked(seq, token, name) --
-- differs: `state || ''` keeps the planner from walking the index of all parked runs.
update wakeful_run set parked_for = :name where seq = :seq and token = :token and state || '' = 'parked'
