-- How much room unverified inputs in quarantine take, and what was cut. Every transaction that changes an app's sum locks its row, so the
-- sums are exact, and of several processes one cuts at a time.

-- add_room(app, bytes) --
-- Adds to the sum and returns it; creates the row if there is none.
insert into wakeful_quarantine_room (app, held) values (:app, :bytes)
on conflict (app) do update set held = wakeful_quarantine_room.held + excluded.held
returning held

-- recount_room(app) --
-- After add_room, which locked the row: includes inputs that an older version stored or removed without counting them.
update wakeful_quarantine_room set held = (
    select coalesce(sum(coalesce(room, size * 4 / 3 + 1024)), 0) from wakeful_quarantine
    where app = :app and kind = 'unverified' and state <> 'released')
where app = :app returning held

-- oldest_unverified(app, most) raw --
-- With the time of arrival and the blobs that they point to, each looked up by its key: a join may walk all events. The newest event
-- stays: SQLite would give its seq to the next one. Rows that another process has locked are left for the next time.
select quarantine.event_seq, quarantine.source, coalesce(quarantine.room, quarantine.size * 4 / 3 + 1024),
  (select accepted_at from wakeful_event where seq = quarantine.event_seq),
  (select substr(envelope, 7) from wakeful_event where seq = quarantine.event_seq and substr(envelope, 1, 6) = '@blob:'),
  case when substr(quarantine.headers, 1, 6) = '@blob:' then substr(quarantine.headers, 7) end
from wakeful_quarantine quarantine
where quarantine.app = :app and quarantine.kind = 'unverified' and quarantine.state <> 'released'
  and quarantine.event_seq <> (select max(seq) from wakeful_event)
order by quarantine.event_seq limit :most {skip_locked}

-- event_is_stored(key) --
select key from wakeful_event where key = :key

-- cut_event(seq) --
delete from wakeful_event where seq = :seq

-- cut_quarantine(event_seq) --
delete from wakeful_quarantine where event_seq = :event_seq

-- cut_blob(id) --
delete from wakeful_blob where id = :id

-- count_cut(now, app, source, why, number, bytes) --
insert into wakeful_quarantine_cut (app, source, why, number, bytes, since, last_at)
values (:app, :source, :why, :number, :bytes, {now}, {now})
on conflict (app, source, why) do update
set number = wakeful_quarantine_cut.number + excluded.number, bytes = wakeful_quarantine_cut.bytes + excluded.bytes,
    last_at = excluded.last_at

-- cut_lately(now, app, within) --
-- Whether anything was cut for its size, so that the alarm is already open.
select 1 from wakeful_quarantine_cut where app = :app and why = 'bytes' and last_at > {now} - :within limit 1

-- list_cut() --
select app, source, why, number as count, bytes, since, last_at from wakeful_quarantine_cut order by app, source, why

-- list_room() --
select app, held from wakeful_quarantine_room order by app
