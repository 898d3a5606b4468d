-- The state of an agent, which one run at a time holds.

-- holding_run(now, app, agent) --
-- Whether a run holds the state of its agent, so that no other may start; and whether that run itself is due.
select case when run.state <> 'running' and run.due_at <= {now} then 1 else 0 end
from wakeful_state state join wakeful_run run on run.seq = state.holder
where state.app = :app and state.agent = :agent and state.key = '' and run.state in ('ready', 'running', 'waiting')

-- due_of_agent(now, app, agent) --
-- Whether any run is due.
select 1 from wakeful_run
where app = :app and agent = :agent and state in ('ready', 'waiting') and due_at <= {now} and crashes < 2
limit 1

-- take_state(app, agent) --
-- The state of an agent, locked until the claim of the run that gets it is committed.
insert into wakeful_state (app, agent, key) values (:app, :agent, '')
on conflict (app, agent, key) do update set agent = excluded.agent
returning value, version, holder

-- state_of_run(seq) --
select state from wakeful_run where seq = :seq

-- hold_state(app, agent, seq) --
update wakeful_state set holder = :seq where app = :app and agent = :agent and key = ''

-- save_state(now, app, agent, key, version, value, run_seq, token) --
-- Compare and set. No row comes back if another writer changed it or the claim is lost.
update wakeful_state
set value = :value, version = version + 1, changed_at = {now},
    changed_by = (select id from wakeful_run where seq = :run_seq)
where app = :app and agent = :agent and key = :key and version = :version
  and exists (select 1 from wakeful_run where seq = :run_seq and token = :token and state = 'running' and cancel_at is null)
returning agent

-- release_state(now, app, agent, key, version, value, run) --
-- As save_state, for a held output that a person releases.
update wakeful_state set value = :value, version = version + 1, changed_at = {now}, changed_by = :run
where app = :app and agent = :agent and key = :key and version = :version
returning agent

-- change_state(now, app, agent, key, value, operator) --
-- By a person. The version rises, so that a run that has read the old one cannot overwrite this.
insert into wakeful_state (app, agent, key, value, version, changed_by, changed_at)
values (:app, :agent, :key, :value, 1, :operator, {now})
on conflict (app, agent, key) do update
set value = excluded.value, version = wakeful_state.version + 1, changed_by = excluded.changed_by,
    changed_at = excluded.changed_at
returning version
