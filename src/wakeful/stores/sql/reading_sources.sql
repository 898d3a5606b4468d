-- Sources for people: how each is, and whether anybody reads it.

-- list_sources(now, app, name) --
-- With the process that reads it, and what is left of its lease: null where there is none, or it is gone for long.
select {source}, process.host, process.pid, process.state, process.lease_until - {now}
from wakeful_source source left join wakeful_process process on process.id = source.holder
where (cast(:app as text) is null or source.app = :app) and (cast(:name as text) is null or source.name = :name)
order by source.app, source.name

-- living_apps(now) --
-- How many processes of each app are alive.
select app, count(*) from wakeful_process where state = 'alive' and lease_until > {now} and app is not null group by app

-- count_items(app, source) --
select count(*) from wakeful_source_item where app = :app and source = :source and gone = 0

-- sources_to_judge(now, app) --
-- Those that a process has, or had when it died.
select source.name, source.kind, source.state, source.read_at, process.host, process.pid, process.state,
  process.lease_until - {now}
from wakeful_source source left join wakeful_process process on process.id = source.holder
where source.app = :app and source.holder is not null

-- count_sources(app) --
select count(*) from wakeful_source where app = :app
