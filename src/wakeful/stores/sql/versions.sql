-- Which version of the code serves each agent. See verbs/versions.py.

-- lock_versions(app) --
-- One transaction at a time changes an app's versions. SQLite has one writer, so there is nothing to lock.
select :app

-- versions_of_app(app) --
select agent, version, first, place from wakeful_version where app = :app

-- versions_at_work(app) --
-- The versions that the living processes of an app serve: a JSON object for each.
select versions from wakeful_process where app = :app and state = 'alive' and versions is not null

-- save_version(now, app, agent, version, first, place) --
insert into wakeful_version (app, agent, version, first, place, since)
values (:app, :agent, :version, :first, :place, {now})
on conflict (app, agent, version) do update set place = excluded.place, since = excluded.since

-- fall_behind(app, id) --
-- A process deployed other code than these processes have.
update wakeful_process set behind = 1 where app = :app and state = 'alive' and id <> :id and behind = 0

-- mark_behind(id) --
-- The process came with code that had been overtaken before.
update wakeful_process set behind = 1 where id = :id

-- forget_version(app, agent, version) --
delete from wakeful_version where app = :app and agent = :agent and version = :version

-- versions_of_agent(app, agent) --
-- For people, in the order of deployment.
select version, place, since from wakeful_version where app = :app and agent = :agent order by place

-- holder_due(now, app, agent) --
-- Whether the run that holds its agent's state is due.
select 1 from wakeful_run
where seq = (select holder from wakeful_state where app = :app and agent = :agent and key = '') and due_at <= {now} {apart}
