-- Queries about sources that must differ on PostgreSQL.

-- save_item(now, app, source, item, version, mark, gone) bulk --
-- differs: all rows in one statement. Only the holder of a source writes its items, so there are no conflicts.
insert into wakeful_source_item (app, source, item, version, mark, gone, changed_at)
select given.*, {now}
from unnest(
  cast(:app as text[]), cast(:source as text[]), cast(:item as text[]), cast(:version as bigint[]), cast(:mark as text[]),
  cast(:gone as bigint[])
) as given
on conflict (app, source, item) do update
set version = excluded.version, mark = excluded.mark, gone = excluded.gone, changed_at = excluded.changed_at

-- insert_alias(now, key, app, event_key) bulk --
-- differs: all rows in one statement. They are sorted by key, so that two processes cannot deadlock.
insert into wakeful_alias (key, app, event_key, made_at)
select given.*, {now} from unnest(cast(:key as text[]), cast(:app as text[]), cast(:event_key as text[])) as given
on conflict (key) do nothing returning key

-- find_alias(key) bulk --
select alias.key, alias.event_key from wakeful_alias alias where alias.key = any(cast(:key as text[]))

-- forget_items(app, source, before, most) --
-- differs: `= any(array(…))` as in load_sent: the few items are looked up by key, instead of comparing each item with them. `gone` is
-- tested twice, because the outer test is repeated for a row that another transaction has just changed. `+ 0` keeps the planner from the
-- index of all items that are gone.
delete from wakeful_source_item where app = :app and source = :source and gone + 0 = 1 and item = any(array(
  select item from wakeful_source_item
  where app = :app and source = :source and gone = 1 and changed_at < :before order by changed_at limit :most))
returning item

-- forget_aliases(app, before, most) --
-- differs: as forget_items.
delete from wakeful_alias where key = any(array(
  select key from wakeful_alias where app = :app and made_at < :before order by made_at limit :most))
returning key

-- backlog_of(now, app, agents, most) --
-- differs: another function unfolds a list, and into an array, so that the index is entered for each agent.
select count(*) from (
  select 1 from wakeful_run
  where app = :app and agent = any(array(select json_array_elements_text(cast(:agents as json))))
    and state in ('ready', 'waiting') and due_at <= {now}
  limit :most) waiting
