-- Waiting work and since when, for the watcher. Each query finds its row by an index, however much waits or is over.

-- waiting_heads(now, app) --
-- For each agent: the next due run. A priority moves the due time of a new run into the past, which is undone here.
select agent.name, agent.owner, agent.starts_within, run.id,
  run.due_at + case when run.token = 0 then coalesce((run.priority + 10) * 60000000, 0) else 0 end, run.crashes
from wakeful_agent agent
join wakeful_run run on run.seq = (
  select head.seq from wakeful_run head
  where head.app = agent.app and head.agent = agent.name and head.state in ('ready', 'waiting') and head.due_at <= {now}
  order by head.due_at limit 1
)
where agent.app = :app

-- running_of_agent(app, agent) --
-- How many run, and when the last and the first of them were claimed.
select count(*), max(claimed_at), min(claimed_at) from wakeful_run
where app = :app and agent = :agent and state = 'running'

-- rate_of_agent(app, agent) --
-- The rate at which runs of an agent, or of the whole app, resume after a pause.
select rate from wakeful_pause where app = :app and agent in (cast(:agent as text), '') and paused = 0 and rate is not null

-- blocked_heads(app, most) --
-- For each agent: the oldest dead letter that keeps a run behind it from starting, among the first `most`.
select agent.name, agent.owner, agent.starts_within, run.id, run.key, run.finished_at
from wakeful_agent agent
join wakeful_run run on run.seq = (
  select letter.seq from (
    select dead.seq, dead.key, dead.finished_at from wakeful_run dead
    where dead.app = agent.app and dead.agent = agent.name and dead.state = 'dead' and dead.place is not null
    order by dead.finished_at limit :most
  ) as letter
  where exists (
    select 1 from wakeful_run behind
    where behind.app = agent.app and behind.agent = agent.name and behind.key = letter.key and behind.place is not null
      and behind.state = 'ready' and behind.due_at is null
  )
  order by letter.finished_at limit 1
)
where agent.app = :app

-- lane_heads(app) --
-- For each lane: its channel, the next delivery, its agent, and the process that holds the lane.
select replace(lane.channel, '!', ''), delivery.id, delivery.created_at, run.agent, lane.owner,
  (select owner from wakeful_agent where app = lane.app and name = run.agent)
from wakeful_lane lane
join wakeful_delivery delivery on delivery.seq = (
  select head.seq from wakeful_delivery head
  where head.app = lane.app and head.channel = replace(lane.channel, '!', '') and head.state = 'pending' and {goes_out}
    and head.urgent = case when lane.channel like '%!' then 1 else 0 end
  order by head.seq limit 1
)
join wakeful_run run on run.seq = delivery.run_seq
where lane.app = :app

-- lags_of_app(app) --
select name, kind, state, since, lag, behind, event_at, owner, lag_within from wakeful_source
where app = :app and lag is not null
