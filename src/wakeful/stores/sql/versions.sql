-- Which code serves each agent. See verbs/versions.py.

-- lock_versions(app) --
-- One at a time changes what is known of an app's versions. SQLite has one writer: nobody to wait for.
select :app

-- versions_of_app(app) --
select agent, version, first, place from wakeful_version where app = :app

-- versions_at_work(app) --
-- What the living processes of an app serve: a JSON object for each.
select versions from wakeful_process where app = :app and state = 'alive' and versions is not null

-- save_version(now, app, agent, version, first, place) --
insert into wakeful_version (app, agent, version, first, place, since)
values (:app, :agent, :version, :first, :place, {now})
on conflict (app, agent, version) do update set place = excluded.place, since = excluded.since

-- fall_behind(app, id) --
-- Other code than that of these was put to work by a process.
update wakeful_process set behind = 1 where app = :app and state = 'alive' and id <> :id and behind = 0

-- mark_behind(id) --
-- It came with code that other code had overtaken before.
update wakeful_process set behind = 1 where id = :id

-- forget_version(app, agent, version) --
delete from wakeful_version where app = :app and agent = :agent and version = :version

-- versions_of_agent(app, agent) --
-- For people: in the order in which they were put to work.
select version, place, since from wakeful_version where app = :app and agent = :agent order by place

-- holder_due(now, app, agent) --
-- Is the run due that keeps the state of its agent?
select 1 from wakeful_run
where seq = (select holder from wakeful_state where app = :app and agent = :agent and key = '') and due_at <= {now} {apart}
