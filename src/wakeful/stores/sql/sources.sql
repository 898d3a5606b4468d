-- Sources: where each stands, who reads it, how it is; and what could not be taken in.

-- enter_source(now, app, name, kind) --
insert into wakeful_source (app, name, kind, state, since) values (:app, :name, :kind, 'idle', {now})
on conflict (app, name) do update set kind = excluded.kind where wakeful_source.kind <> excluded.kind

-- find_source(app, name) --
select {source} from wakeful_source source where app = :app and name = :name

-- sources_of_app(app) --
select {source} from wakeful_source source where app = :app order by name

-- all_sources() --
select {source} from wakeful_source source order by app, name

-- held_sources(now, app) --
-- Which sources a process that is alive reads now.
select source.name, source.holder from wakeful_source source join wakeful_process process on process.id = source.holder
where source.app = :app and process.state = 'alive' and process.lease_until > {now}

-- lock_source(app, name) --
select holder, token, cursor from wakeful_source where app = :app and name = :name {for_update}

-- is_alive(now, id) --
select 1 from wakeful_process where id = :id and state = 'alive' and lease_until > {now}

-- hold_source(now, app, name, holder) --
update wakeful_source set holder = :holder, token = token + 1, read_at = {now} where app = :app and name = :name
returning token, cursor

-- let_source_go(now, app, name, holder, token) --
update wakeful_source set holder = null, state = case when state = 'failing' then 'failing' else 'idle' end,
  since = case when state in ('failing', 'idle') then since else {now} end
where app = :app and name = :name and holder = :holder and token = :token

-- move_source(now, app, name, cursor, lag, behind, taken, repeated, kept) --
-- What was read is stored, and with that it is known that it can be read.
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

-- save_item(now, app, source, item, version, mark, gone) --
insert into wakeful_source_item (app, source, item, version, mark, gone, changed_at)
values (:app, :source, :item, :version, :mark, :gone, {now})
on conflict (app, source, item) do update
set version = excluded.version, mark = excluded.mark, gone = excluded.gone, changed_at = excluded.changed_at

-- items_of_source(app, source, after, most) --
select item, version, mark, gone from wakeful_source_item
where app = :app and source = :source and item > :after order by item limit :most

-- forget_items(app, source, before, most) --
-- What has been gone for so long that nothing of it can come again.
delete from wakeful_source_item where app = :app and source = :source and item in (
  select item from wakeful_source_item
  where app = :app and source = :source and gone = 1 and changed_at < :before limit :most)

-- insert_alias(now, key, event_key) --
-- No row comes back when the name is known already.
insert into wakeful_alias (key, event_key, made_at) values (:key, :event_key, {now})
on conflict (key) do nothing returning key

-- find_alias(key) --
select key, event_key from wakeful_alias where key = :key

-- forget_aliases(before, most) --
delete from wakeful_alias where key in (select key from wakeful_alias where made_at < :before limit :most)

-- insert_quarantine(key, app, source, kind, headers) --
-- Beside its event, once: the same bytes again are a repeat of it.
insert into wakeful_quarantine (event_seq, app, source, kind, headers, state)
select seq, :app, :source, :kind, :headers, 'kept' from wakeful_event where key = :key
on conflict (event_seq) do nothing returning event_seq

-- find_quarantined(app, key) --
select quarantine.event_seq, quarantine.source, quarantine.kind, quarantine.headers, quarantine.state, quarantine.became,
  quarantine.operator, quarantine.note, quarantine.settled_at, event.key, event.source, event.id, event.reason, event.envelope,
  event.duplicates, event.accepted_at
from wakeful_event event join wakeful_quarantine quarantine on quarantine.event_seq = event.seq
where event.key = :key and quarantine.app = :app

-- settle_quarantine(now, app, key, state, became, operator, note) --
update wakeful_quarantine
set state = :state, became = :became, operator = :operator, note = :note, settled_at = {now}
where event_seq = (select seq from wakeful_event where key = :key) and app = :app and state = 'kept'
returning event_seq

-- backlog_of(now, app, agent, most) --
-- How many runs of an agent could start now; it stops counting at `most`.
select count(*) from (
  select 1 from wakeful_run
  where app = :app and agent = :agent and state in ('ready', 'waiting') and due_at <= {now} limit :most) waiting
