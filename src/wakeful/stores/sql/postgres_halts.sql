-- Queries about halts that must differ on PostgreSQL.

-- claim_to_undo(now, app, agent, most, process, version) --
-- differs: as claim_runs.
update wakeful_run
set state = 'running', reason = null, owner = :process, token = token + 1,
    started_at = coalesce(started_at, {now}), claimed_at = {now}, version = coalesce(version, :version)
where seq = any(array(
  select seq from wakeful_run
  where app = :app and agent = :agent and state in ('ready', 'waiting') and due_at <= {now} and crashes < 2
    and cancel_at is not null and cancel_by not in ('on_failure="undo"', 'on_stuck="cancel"', 'overlap="replace"')
    and cancel_by not like 'run %, which failed' {apart}
  order by due_at
  limit :most
  {skip_locked}
))
returning {claimed}

-- note_halted(seq, token, name) --
-- differs: as note_parked.
update wakeful_run set halted_for = :name where seq = :seq and token = :token and state || '' = 'parked'

-- unpark_halted(now, app, name, reason) --
-- differs: `state || ''` keeps the planner from the index of all parked runs.
update wakeful_run
set state = 'ready', reason = :reason, halted_for = null, due_at = {now},
    started_at = started_at + ({now} - coalesce(due_at, {now}))
where app = :app and halted_for = :name and state || '' = 'parked'
returning app, agent
