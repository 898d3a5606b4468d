-- The agents of an app, for a watcher without the app's code.

-- keep_agent(app, name, owner, starts_within) --
insert into wakeful_agent (app, name, owner, starts_within) values (:app, :name, :owner, :starts_within)
on conflict (app, name) do update set owner = excluded.owner, starts_within = excluded.starts_within

-- agents_of_app(app) --
select name, owner, starts_within from wakeful_agent where app = :app
