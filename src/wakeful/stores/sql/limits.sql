-- What keeps due runs from being claimed: pauses, limits over all processes, and the shares of other processes.

-- claim_facts(now, app) --
-- Read first by a claim: agents with a run that must run alone, paused agents and rates after a pause, halted agents, failing agents,
-- whose next success must be recorded; and a last row if living processes have different versions of the code or one was overtaken.
select agent, 'solo', cast(null as text) from (
  select distinct agent from wakeful_run
  where app = :app and state in ('ready', 'waiting') and crashes >= 2 and due_at <= {now}
) as dangerous
union all
select agent, case when paused = 1 then 'paused' else 'rate' end, rate from wakeful_pause
where app = :app and (paused = 1 or rate is not null)
union all
select agent, 'halted', null from wakeful_halt where app = :app and action = ''
union all
select agent, 'failing', null from wakeful_failing where app = :app
union all
select '', 'versions', null from wakeful_process where app = :app and state = 'alive' and versions is not null
group by app having min(versions) <> max(versions) or max(behind) = 1

-- take_limit(app, agent) --
-- The transaction that locks this row may count and claim what is left: no other one claims runs of this agent until its commit.
select agent from wakeful_limit where app = :app and agent = :agent {for_update}

-- insert_limit(app, agent) --
insert into wakeful_limit (app, agent) values (:app, :agent) on conflict (app, agent) do nothing

-- set_limit(app, agent, concurrency, most, within) --
-- For people to see. Nothing is written if nothing has changed.
insert into wakeful_limit (app, agent, concurrency, most, within) values (:app, :agent, :concurrency, :most, :within)
on conflict (app, agent) do update
set concurrency = excluded.concurrency, most = excluded.most, within = excluded.within
where (coalesce(wakeful_limit.concurrency, 0), coalesce(wakeful_limit.most, 0), coalesce(wakeful_limit.within, 0))
  <> (coalesce(excluded.concurrency, 0), coalesce(excluded.most, 0), coalesce(excluded.within, 0))

-- clear_limit(app, agent) --
-- The agent no longer declares a limit.
update wakeful_limit set concurrency = null, most = null, within = null
where app = :app and agent = :agent and (concurrency is not null or most is not null)

-- count_running(app, agent) --
select count(*) from wakeful_run where app = :app and agent = :agent and state = 'running'

-- count_due(now, app, agent, most) --
-- How many are due, counted up to `most`.
select count(*) from (
  select 1 from wakeful_run
  where app = :app and agent = :agent and state in ('ready', 'waiting') and due_at <= {now}
  limit :most
) as due

-- peek_due(now, app, agent, most) --
-- The due times of the next due runs, the oldest first.
select agent, due_at from wakeful_run
where app = :app and agent = :agent and state in ('ready', 'waiting') and due_at <= {now} and crashes < 2 {apart}
order by due_at
limit :most

-- claim_resumed(now, app, agent, most, process, version) --
-- As claim_runs, for runs that have started before. Their index is on `due_at + 0`.
with candidate as materialized (
  select seq from wakeful_run
  where app = :app and agent = :agent and state in ('ready', 'waiting') and token > 0 and due_at + 0 <= {now} and crashes < 2 {apart}
  order by due_at + 0
  limit :most
)
update wakeful_run
set state = 'running', reason = null, owner = :process, token = token + 1,
    started_at = coalesce(started_at, {now}), claimed_at = {now}, version = coalesce(version, :version)
where seq in (select seq from candidate)
returning {claimed}

-- count_starts(now, app, agent, within) --
select count(*) from wakeful_start where app = :app and agent = :agent and started_at > {now} - :within

-- next_start(now, app, agent, behind, within) --
-- How long until one more may start: until the start that is `behind` places before the last leaves the window.
select started_at + :within - {now} from wakeful_start
where app = :app and agent = :agent order by started_at desc limit 1 offset :behind

-- insert_start(app, agent, started_at, run_seq, token) --
insert into wakeful_start (app, agent, started_at, run_seq, token)
values (:app, :agent, :started_at, :run_seq, :token)
on conflict (app, agent, started_at, run_seq, token) do nothing

-- forget_starts(now, app, agent, within) --
-- Starts that no rate counts any more.
delete from wakeful_start where app = :app and agent = :agent and started_at <= {now} - :within

-- find_pause(app, agent) --
select paused, rate from wakeful_pause where app = :app and agent = :agent

-- set_pause(now, app, agent, paused, rate, operator, note) --
insert into wakeful_pause (app, agent, paused, rate, operator, note, changed_at)
values (:app, :agent, :paused, :rate, :operator, :note, {now})
on conflict (app, agent) do update
set paused = excluded.paused, rate = excluded.rate, operator = excluded.operator, note = excluded.note,
    changed_at = excluded.changed_at

-- lift_rate(app, agent, rate) --
-- The runs that gathered during the pause are gone.
update wakeful_pause set rate = null where app = :app and agent = :agent and paused = 0 and rate = :rate

-- agents_at_work(app) --
-- The agents that living processes of an app have loaded: a JSON list for each process.
select agents from wakeful_process where app = :app and state = 'alive' and agents is not null

-- list_pauses() --
-- Agents that are paused or resume at a rate.
select app, nullif(agent, '') as agent, paused, rate, operator as "by", note, changed_at as since from wakeful_pause
where paused = 1 or rate is not null order by wakeful_pause.app, wakeful_pause.agent

-- known_apps() --
-- Apps that use or have used this store.
select distinct app from wakeful_run union select distinct app from wakeful_event
union select distinct app from wakeful_process where app is not null

-- loaded_agents() --
-- What current and former processes have loaded: the app and a JSON list of its agents.
select distinct app, agents from wakeful_process where app is not null and agents is not null

-- living_peers(now, app, own) --
-- Other living processes of an app: a JSON list of the agents of each.
select agents from wakeful_process
where app = :app and id <> :own and state = 'alive' and lease_until > {now} and agents is not null

-- limit_of_agent(app, agent) --
select concurrency, most, within from wakeful_limit where app = :app and agent = :agent

-- limits_of_app(app) --
select agent, concurrency, most, within from wakeful_limit where app = :app order by agent
