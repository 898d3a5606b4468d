-- What must differ on PostgreSQL, each with its reason.

-- claim_runs(now, app, agent, most, process) --
-- differs: `= any(array(…))` makes the planner walk the primary key; with `in (select …)` and a limit that it does not
-- know, a generic plan may read the whole table. `skip locked` lets claimants pass over each other.
update wakeful_run
set state = 'running', reason = null, owner = :process, token = token + 1,
    started_at = coalesce(started_at, {now}), claimed_at = {now}
where seq = any(array(
  select seq from wakeful_run
  where app = :app and agent = :agent and state in ('ready', 'waiting') and due_at <= {now} and crashes < 2
  order by due_at
  limit :most
  {skip_locked}
))
returning seq, id, root, agent, token, attempts, crashes, created_at, started_at, claimed_at, expires_at,
  (select envelope from wakeful_event event where event.seq = wakeful_run.event_seq)

-- claim_solo(now, app, agent, process) --
-- differs: as claim_runs.
update wakeful_run
set state = 'running', reason = null, owner = :process, token = token + 1,
    started_at = coalesce(started_at, {now}), claimed_at = {now}
where seq = any(array(
  select seq from wakeful_run
  where app = :app and agent = :agent and state in ('ready', 'waiting') and due_at <= {now} and crashes >= 2
  order by due_at
  limit 1
  {skip_locked}
))
returning seq, id, root, agent, token, attempts, crashes, created_at, started_at, claimed_at, expires_at,
  (select envelope from wakeful_event event where event.seq = wakeful_run.event_seq)

-- notify(payload) --
-- differs: exists only here. One per transaction that made runs ready which nobody in it claimed.
select pg_notify('wakeful', :payload)

-- save_step_once(run_seq, token, key, name, state, position, tries, attempt, arguments, result, error, started_at, finished_at) --
-- differs: exists only here. As save_step, for a user's own transaction: a step that is done already stays, and no row
-- comes back, so that the user's rows are not stored a second time after a COMMIT whose answer was lost.
insert into wakeful_step
  (run_seq, key, name, state, position, tries, attempt, arguments, result, error, started_at, finished_at)
select seq, :key, :name, :state, :position, :tries, :attempt, :arguments, :result, :error, :started_at, :finished_at
from wakeful_run where seq = :run_seq and token = :token and state = 'running'
on conflict (run_seq, key) do update
set state = excluded.state, tries = excluded.tries, attempt = excluded.attempt, result = excluded.result,
    error = excluded.error, finished_at = excluded.finished_at
where wakeful_step.state <> 'done'
returning run_seq, key
