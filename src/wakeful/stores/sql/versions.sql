-- Which code serves each agent. See verbs/versions.py.

-- lock_versions(app) --
-- One at a time changes what is known of an app's versions. SQLite has one writer: nobody to wait for.
select :app

-- versions_of_app(app) --
select agent, version, first, place, live, apart from wakeful_version where app = :app

-- versions_at_work(app) --
-- What the living processes of an app serve: a JSON object for each.
select versions from wakeful_process where app = :app and state = 'alive' and versions is not null

-- app_of_process(id) --
-- Whose agents it serves, if it said so.
select app from wakeful_process where id = :id and app is not null and versions is not null

-- save_version(now, app, agent, version, first, place, live, apart) --
insert into wakeful_version (app, agent, version, first, place, since, live, apart)
values (:app, :agent, :version, :first, :place, {now}, :live, :apart)
on conflict (app, agent, version) do update
set since = case when excluded.place > wakeful_version.place then excluded.since else wakeful_version.since end,
    place = excluded.place, live = excluded.live, apart = excluded.apart

-- forget_version(app, agent, version) --
delete from wakeful_version where app = :app and agent = :agent and version = :version

-- versions_of_agent(app, agent) --
-- For people: in the order in which they were put to work.
select version, place, since, live, apart from wakeful_version where app = :app and agent = :agent order by place

-- holder_due(now, app, agent) --
-- Is the run due that keeps the state of its agent?
select 1 from wakeful_run
where seq = (select holder from wakeful_state where app = :app and agent = :agent and key = '') and due_at <= {now} {apart}
