-- What must differ on PostgreSQL about circuits.

-- unpark_runs(now, app, name, most, reason) --
-- differs: `seq + 0` is what its index has, and `= any(array(…))` as claim_runs. One that somebody else is just changing, to
-- cancel it, is passed over.
update wakeful_run
set state = 'ready', reason = :reason, parked_for = null, due_at = {now},
    started_at = started_at + ({now} - coalesce(due_at, {now}))
where seq = any(array(
  select seq from wakeful_run where app = :app and parked_for = :name and state = 'parked'
  order by seq + 0 limit :most
  for update skip locked
))
returning seq
