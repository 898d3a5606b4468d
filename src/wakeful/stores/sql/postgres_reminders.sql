-- What must differ on PostgreSQL about reminders.

-- what_came() --
-- differs: numbers are given before they are committed. A snapshot knows exactly which events were there.
select cast(pg_current_snapshot() as text)

-- came_since(app, type, mark, passed) --
-- differs: by the transaction that wrote it, an event that the mark does not know. A place is that transaction and the seq.
select id, source, envelope, accepted_at, cast(written_in as text) || '/' || seq from wakeful_event
where app = :app and type = :type
  and written_in >= pg_snapshot_xmin(cast(cast(:mark as text) as pg_snapshot))
  and not pg_visible_in_snapshot(written_in, cast(cast(:mark as text) as pg_snapshot))
  and written_in >= cast(split_part(cast(:passed as text), '/', 1) as xid8)
  and (written_in, seq) > (cast(split_part(cast(:passed as text), '/', 1) as xid8), cast(split_part(cast(:passed as text), '/', 2) as bigint))
  and state in ('accepted', 'unmatched')
order by written_in, seq limit 100
