-- Queries about waiting work that must differ on PostgreSQL: `= any(array[…])` forces a lookup of each row by its key.

-- waiting_heads(now, app) --
-- differs: see above.
select agent.name, agent.owner, agent.starts_within, run.id,
  run.due_at + case when run.token = 0 then coalesce((run.priority + 10) * 60000000, 0) else 0 end, run.crashes
from wakeful_agent agent
join wakeful_run run on run.seq = any(array[(
  select head.seq from wakeful_run head
  where head.app = agent.app and head.agent = agent.name and head.state in ('ready', 'waiting') and head.due_at <= {now}
  order by head.due_at limit 1
)])
where agent.app = :app

-- blocked_heads(app, most) --
-- differs: see above. `finished_at > 0` leads the planner to the index of these dead letters, away from that of all keys.
select agent.name, agent.owner, agent.starts_within, run.id, run.key, run.finished_at
from wakeful_agent agent
join wakeful_run run on run.seq = any(array[(
  select letter.seq from (
    select dead.seq, dead.key, dead.finished_at from wakeful_run dead
    where dead.app = agent.app and dead.agent = agent.name and dead.state = 'dead' and dead.place is not null
      and dead.finished_at > 0
    order by dead.finished_at limit :most
  ) as letter
  where (
    select 1 from wakeful_run behind
    where behind.app = agent.app and behind.agent = agent.name and behind.key = letter.key and behind.place is not null
      and behind.state || '' = 'ready' and behind.due_at is null
    limit 1
  ) is not null
  order by letter.finished_at limit 1
)])
where agent.app = :app

-- lane_heads(app) --
-- differs: see above; and its index is on `seq + 0`.
select replace(lane.channel, '!', ''), delivery.id, delivery.created_at, run.agent, lane.owner,
  (select owner from wakeful_agent where app = lane.app and name = run.agent)
from wakeful_lane lane
join wakeful_delivery delivery on delivery.seq = any(array[(
  select head.seq from wakeful_delivery head
  where head.app = lane.app and head.channel = replace(lane.channel, '!', '') and head.state = 'pending' and {goes_out}
    and head.urgent = case when lane.channel like '%!' then 1 else 0 end
  order by head.seq + 0 limit 1
)])
join wakeful_run run on run.seq = any(array[delivery.run_seq])
where lane.app = :app
