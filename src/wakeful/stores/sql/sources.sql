-- Sources: their cursors, readers and health; and quarantined inputs.

-- enter_source(now, app, name, kind, agents, owner, lag_within, brings) --
-- A caller that gives no agents leaves agents, owner and lag limit unchanged.
insert into wakeful_source (app, name, kind, agents, state, since, owner, lag_within, brings)
values (:app, :name, :kind, :agents, 'idle', {now}, :owner, :lag_within, :brings)
on conflict (app, name) do update set kind = excluded.kind, agents = coalesce(excluded.agents, wakeful_source.agents),
  brings = coalesce(excluded.brings, wakeful_source.brings),
  owner = case when excluded.agents is null then wakeful_source.owner else excluded.owner end,
  lag_within = case when excluded.agents is null then wakeful_source.lag_within else excluded.lag_within end
where wakeful_source.kind <> excluded.kind
  or wakeful_source.agents is distinct from coalesce(excluded.agents, wakeful_source.agents)
  or wakeful_source.brings is distinct from coalesce(excluded.brings, wakeful_source.brings)
  or excluded.agents is not null and (
    wakeful_source.owner is distinct from excluded.owner or wakeful_source.lag_within is distinct from excluded.lag_within)

-- reserved_names(app) --
-- The names that events of an app's sources have, and the names of its agents.
select name, kind, brings from wakeful_source where app = :app
union all select name, 'agent', null from wakeful_agent where app = :app

-- insert_server(now, app, source, process) --
insert into wakeful_server (app, source, process, since) values (:app, :source, :process, {now})
on conflict (app, source, process) do nothing

-- drop_dead_servers(now, app, source) --
-- Each process is looked up by its id.
delete from wakeful_server where app = :app and source = :source
  and coalesce((select lease_until from wakeful_process where id = wakeful_server.process and state = 'alive'), 0) <= {now}

-- remove_server(app, source, process) --
delete from wakeful_server where app = :app and source = :source and process = :process

-- remove_servers(app, source) --
delete from wakeful_server where app = :app and source = :source

-- find_source(app, name) --
select {source} from wakeful_source source where app = :app and name = :name

-- sources_of_app(app) --
select {source} from wakeful_source source where app = :app order by name

-- all_sources() --
select {source} from wakeful_source source order by app, name

-- held_sources(now, app) --
-- Sources that a living process reads now. Each process is looked up by its id: a join may walk all processes that ever existed.
select source.name, source.holder from wakeful_source source
where source.app = :app
  and (select lease_until from wakeful_process where id = source.holder and state = 'alive') > {now}

-- lock_source(app, name) --
select holder, token, cursor from wakeful_source where app = :app and name = :name {for_update}

-- is_alive(now, id) --
select 1 from wakeful_process where id = :id and state = 'alive' and lease_until > {now}

-- hold_source(now, app, name, holder) --
update wakeful_source set holder = :holder, token = token + 1, read_at = {now} where app = :app and name = :name
returning token, cursor

-- let_source_go(now, app, name, holder, token) --
update wakeful_source set holder = null, state = case when state = 'failing' then 'failing' else 'idle' end,
  error = case when state = 'failing' then error end,
  since = case when state in ('failing', 'idle') then since else {now} end
where app = :app and name = :name and holder = :holder and token = :token

-- move_source(now, app, name, cursor, lag, behind, taken, repeated, kept) --
-- Events were stored, which also shows that the source can be read.
update wakeful_source
set cursor = coalesce(cast(:cursor as text), cursor), lag = coalesce(cast(:lag as bigint), lag),
    behind = coalesce(cast(:behind as bigint), behind), taken = taken + cast(:taken as bigint),
    repeated = repeated + cast(:repeated as bigint), quarantined = quarantined + cast(:kept as bigint),
    event_at = case when cast(:taken as bigint) > 0 then {now} else event_at end, read_at = {now}
where app = :app and name = :name

-- report_source(now, app, name, state, error, token, lag, behind, taken, repeated, refused, event_at) --
update wakeful_source
set since = case when state = coalesce(cast(:state as text), state) then since else {now} end,
    error = case when cast(:state as text) is null then error else cast(:error as text) end,
    state = coalesce(cast(:state as text), state), lag = coalesce(cast(:lag as bigint), lag),
    behind = coalesce(cast(:behind as bigint), behind), taken = taken + cast(:taken as bigint),
    repeated = repeated + cast(:repeated as bigint), refused = refused + cast(:refused as bigint),
    event_at = coalesce(cast(:event_at as bigint), event_at), read_at = {now}
where app = :app and name = :name and (cast(:token as bigint) is null or token = cast(:token as bigint))

-- rest_source(now, app, name) --
-- A process that read it stops. As in let_source_go, a failing source stays failing until it is read again: another process may say so.
update wakeful_source set state = 'idle', error = null, since = {now}
where app = :app and name = :name and state not in ('failing', 'idle')

-- save_item(now, app, source, item, version, mark, gone) --
insert into wakeful_source_item (app, source, item, version, mark, gone, changed_at)
values (:app, :source, :item, :version, :mark, :gone, {now})
on conflict (app, source, item) do update
set version = excluded.version, mark = excluded.mark, gone = excluded.gone, changed_at = excluded.changed_at

-- items_of_source(app, source, after, most) --
select item, version, mark, gone from wakeful_source_item
where app = :app and source = :source and item > :after order by item limit :most

-- remove_items(app, source) --
delete from wakeful_source_item where app = :app and source = :source

-- remove_source(app, name) --
delete from wakeful_source where app = :app and name = :name

-- forget_items(app, source, before, most) --
-- Items that have been gone for so long that they cannot come again.
delete from wakeful_source_item where app = :app and source = :source and item in (
  select item from wakeful_source_item
  where app = :app and source = :source and gone = 1 and changed_at < :before order by changed_at limit :most)
returning item

-- insert_alias(now, key, app, event_key) --
-- No row comes back if the name is already known.
insert into wakeful_alias (key, app, event_key, made_at) values (:key, :app, :event_key, {now})
on conflict (key) do nothing returning key

-- find_alias(key) --
select key, event_key from wakeful_alias where key = :key

-- move_alias(key, event_key) --
-- A new name of an event that was known by another one.
update wakeful_alias set event_key = :event_key where key = :key

-- forget_aliases(app, before, most) --
delete from wakeful_alias
where key in (select key from wakeful_alias where app = :app and made_at < :before order by made_at limit :most)
returning key

-- insert_quarantine(key, app, source, kind, size, headers, form, room) --
-- One row for each event: the same input again is a repeat.
insert into wakeful_quarantine (event_seq, app, source, kind, size, headers, form, room, state)
select seq, :app, :source, :kind, :size, :headers, :form, :room, 'kept' from wakeful_event where key = :key
on conflict (event_seq) do nothing returning event_seq

-- end_quarantine(now, app, key, state, became, made, operator, note) --
update wakeful_quarantine
set state = :state, became = :became, made = :made, operator = :operator, note = :note, settled_at = {now}
where event_seq = (select seq from wakeful_event where key = :key) and app = :app and state = 'kept'
returning case when kind = 'unverified' then coalesce(room, size * 4 / 3 + 1024) else 0 end

-- keep_again(app, key, operator) --
-- The source closed this input by itself, and refuses it again.
update wakeful_quarantine set state = 'kept', operator = null, note = null, settled_at = null
where event_seq = (select seq from wakeful_event where key = :key) and app = :app and state = 'discarded' and operator = :operator

-- backlog_of(now, app, agents, most) --
-- How many runs of these agents, a JSON list, could start now; it stops counting at `most`.
select count(*) from (
  select 1 from wakeful_run
  where app = :app and agent in (select value from json_each(:agents)) and state in ('ready', 'waiting') and due_at <= {now}
  limit :most) waiting
