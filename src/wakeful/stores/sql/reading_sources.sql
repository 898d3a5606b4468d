-- Sources, for people: their health, and whether a process reads them.

-- list_sources(now, app, name) --
-- With the process that reads it; null if there is none or it is long gone.
select source.app, source.name, source.kind, source.state, source.error as reason, source.since, source.lag, source.behind,
  source.event_at, source.read_at, source.taken, source.repeated, source.refused, source.quarantined, source.agents,
  source.cursor, source.token, source.holder as process, process.host, process.pid,
  case when process.state = 'alive' and process.lease_until > {now} then 1 else 0 end as alive
from wakeful_source source left join wakeful_process process on process.id = source.holder
where (cast(:app as text) is null or source.app = :app) and (cast(:name as text) is null or source.name = :name)
order by source.app, source.name

-- living_apps(now) --
-- How many living processes each app has.
select app, count(*) from wakeful_process where state = 'alive' and lease_until > {now} and app is not null group by app

-- servers_of_sources(now, app, name) --
-- The processes that serve or served webhooks, and when their leases expire or expired; the last one first.
select server.process, process.host, process.pid,
  case when process.state = 'alive' and process.lease_until > {now} then 1 else 0 end as alive,
  server.since, process.lease_until as until, server.app, server.source
from wakeful_server server left join wakeful_process process on process.id = server.process
where (cast(:app as text) is null or server.app = :app) and (cast(:name as text) is null or server.source = :name)
order by server.app, server.source, process.lease_until desc

-- count_items(app, source) --
select count(*) from wakeful_source_item where app = :app and source = :source and gone = 0

-- sources_to_judge(now, app) --
-- Sources that a process reads, or read when it died.
select source.name, source.kind, source.state, source.read_at, process.host, process.pid, process.state,
  process.lease_until - {now}, source.owner
from wakeful_source source left join wakeful_process process on process.id = source.holder
where source.app = :app and source.holder is not null

-- count_unserved(now) --
-- Webhooks whose servers are all dead.
select count(*) from (
  select server.app, server.source from wakeful_server server
  group by server.app, server.source
  having max(coalesce(
    (select lease_until - {now} from wakeful_process where id = server.process and state = 'alive'), 0)) <= 0
) as dead

-- webhooks_to_judge(now, app) --
-- Webhooks that a process serves, or served when it died, one row for each; each process is looked up by its id.
select server.source, source.kind, source.state, source.read_at, server.process, source.owner,
  (select host from wakeful_process where id = server.process), (select pid from wakeful_process where id = server.process),
  (select lease_until - {now} from wakeful_process where id = server.process and state = 'alive'),
  (select lease_until - {now} from wakeful_process where id = server.process)
from wakeful_server server join wakeful_source source on source.app = server.app and source.name = server.source
where server.app = :app

-- count_sources(app) --
select count(*) from wakeful_source where app = :app
