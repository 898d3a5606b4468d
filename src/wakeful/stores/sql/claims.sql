-- Claims: the fence of a process, and the due runs that it claims and gives back.

-- fence(now, process) --
-- Whether this process is alive and its lease valid. The lock keeps others from taking its runs before this transaction ends.
select id, lease_until > {now} from wakeful_process where id = :process and state = 'alive' {for_key_share}

-- fence_alone(now, process) --
-- As fence, but waits for every other transaction of this process: one whose connection was lost may still commit.
select id, lease_until > {now} from wakeful_process where id = :process and state = 'alive' {for_update}

-- claim_runs(now, app, agent, most, process, version) --
-- The oldest due runs of one agent, now owned by this process under a new token.
with candidate as materialized (
  select seq from wakeful_run
  where app = :app and agent = :agent and state in ('ready', 'waiting') and due_at <= {now} and crashes < 2 {apart}
  order by due_at
  limit :most
)
update wakeful_run
set state = 'running', reason = null, owner = :process, token = token + 1,
    started_at = coalesce(started_at, {now}), claimed_at = {now}, version = coalesce(version, :version)
where seq in (select seq from candidate)
returning {claimed}

-- claim_solo(now, app, agent, process, version) --
-- One run that was in flight in two or more processes that died: its worker runs nothing else beside it. The `+` keeps SQLite from the
-- index of all due runs, where these are the last entries.
with candidate as materialized (
  select seq from wakeful_run
  where app = :app and +agent = :agent and state in ('ready', 'waiting') and due_at <= {now} and crashes >= 2 {apart}
  order by due_at, seq
  limit 1
)
update wakeful_run
set state = 'running', reason = null, owner = :process, token = token + 1,
    started_at = coalesce(started_at, {now}), claimed_at = {now}, version = coalesce(version, :version)
where seq in (select seq from candidate)
returning {claimed}

-- claim_one(now, seq, process, version) --
-- The run that holds the state of its agent, once it is due again.
update wakeful_run
set state = 'running', reason = null, owner = :process, token = token + 1,
    started_at = coalesce(started_at, {now}), claimed_at = {now}, version = coalesce(version, :version)
where seq = :seq and state in ('ready', 'waiting') and due_at <= {now} and crashes < 2 {apart}
returning {claimed}

-- next_due(now, app, agent) --
-- How long until the next run of this agent is due; null if there is none.
select min(due_at) - {now} from wakeful_run
where app = :app and agent = :agent and state in ('ready', 'waiting') and due_at > {now}

-- load_steps(run_seq) --
select run_seq, key, name, state, result, error, arguments, tries, attempt, position, started_at, finished_at
from wakeful_step where run_seq = :run_seq order by position

-- token_of_run(seq) --
select seq, token, state, committed_at, cancel_by, cancel_note from wakeful_run where seq = :seq

-- take_back_runs(now, process) --
-- Recovery makes runs ready again and never executes them. The token rises, so that the old owner's writes are refused.
update wakeful_run
set state = 'ready', reason = 'its process died', owner = null, due_at = {now}, token = token + 1, crashes = crashes + 1
where owner = :process and state = 'running'
returning seq, token, claimed_at

-- give_back_runs(now, process) --
-- As take_back_runs, for a process that leaves in order: no crash is counted.
update wakeful_run
set state = 'ready', reason = 'its worker stopped', owner = null, due_at = {now}, token = token + 1
where owner = :process and state = 'running'
returning seq, token, claimed_at

-- runs_of_process(process) --
select id from wakeful_run where owner = :process and state = 'running'

-- forget_run(now, id, process) --
-- Gives back a run whose claim was committed but whose answer was lost.
update wakeful_run set state = 'ready', owner = null, due_at = {now}, token = token + 1
where id = :id and owner = :process and state = 'running'
