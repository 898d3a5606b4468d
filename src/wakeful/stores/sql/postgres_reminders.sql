-- Queries about reminders that must differ on PostgreSQL.

-- what_came() --
-- differs: numbers are assigned before the commit, but a snapshot knows exactly which events existed. It is prefixed with the number of its
-- server (wakeful_origin), unless that is the first.
select coalesce(nullif((select max(number) from wakeful_origin), 0) || '@', '') || cast(pg_current_snapshot() as text)

-- came_since(app, type, mark, passed) --
-- differs: by the transaction that wrote the event: those that the mark's snapshot does not contain. If the store was restored into another
-- server later, all events that came there are among them. A position is that transaction and the seq.
with given as materialized (
  select cast(split_part('0@' || cast(:mark as text), '@', -1) as pg_snapshot) as snapshot,
    cast(split_part(cast(:passed as text), '/', 1) as xid8) as passed_in,
    cast(split_part(cast(:passed as text), '/', 2) as bigint) as passed_seq,
    (select event_seq from wakeful_origin where number = cast(split_part('0@' || cast(:mark as text), '@', -2) as bigint)) as first,
    (select event_seq from wakeful_origin where number > cast(split_part('0@' || cast(:mark as text), '@', -2) as bigint)
     order by number limit 1) as beyond
)
select id, source, envelope, accepted_at, cast(written_in as text) || '/' || seq from (
  select 0 as later, key, app, id, source, envelope, accepted_at, written_in, seq from wakeful_event
  where app = :app and type = :type
    and written_in >= pg_snapshot_xmin((select snapshot from given))
    and not pg_visible_in_snapshot(written_in, (select snapshot from given))
    and written_in >= (select passed_in from given)
    and (written_in, seq) > ((select passed_in from given), (select passed_seq from given))
    and coalesce(seq, 0) >= coalesce((select first from given), 0)
    and ((select beyond from given) is null or coalesce(seq, 0) < (select beyond from given))
    and (select beyond is null or passed_seq < beyond from given)
    and state in ('accepted', 'unmatched')
  union all
  select 1, key, app, id, source, envelope, accepted_at, written_in, seq from wakeful_event
  where (select beyond is not null from given) and app = :app and type = :type
    and coalesce(seq, 0) >= (select beyond from given)
    and ((select passed_seq < beyond from given)
      or (written_in, seq) > ((select passed_in from given), (select passed_seq from given)))
    and state in ('accepted', 'unmatched')
) came
order by later, written_in, seq limit 100
