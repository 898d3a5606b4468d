-- Queries about the store's origins that must differ on PostgreSQL.

-- this_origin() --
-- differs: exists only here. A dump restored elsewhere has another identity. A standby, a physical copy and a point-in-time recovery have
-- the same identity, and the same transaction numbers.
select cast(system_identifier as text) from pg_control_system()

-- look_at_origin() --
-- differs: exists only here. In one round trip: this cluster; the last origin; whether the newest event has a transaction number that
-- this cluster has not reached, so that it cannot have been written here; and restored_before.
select (select cast(system_identifier as text) from pg_control_system()), last.identity,
  coalesce((
    select written_in >= pg_snapshot_xmax(pg_current_snapshot()) and seq >= coalesce(last.event_seq, 0)
    from wakeful_event order by seq desc limit 1
  ), false),
  (select coalesce(max(run_seq), 0) from wakeful_origin where doubtful = 1)
from (select 1) one left join (select * from wakeful_origin order by number desc limit 1) last on true

-- look_at_origin_only() --
-- differs: as look_at_origin, for a server that does not tell its cluster.
select 'unknown', last.identity,
  coalesce((
    select written_in >= pg_snapshot_xmax(pg_current_snapshot()) and seq >= coalesce(last.event_seq, 0)
    from wakeful_event order by seq desc limit 1
  ), false),
  (select coalesce(max(run_seq), 0) from wakeful_origin where doubtful = 1)
from (select 1) one left join (select * from wakeful_origin order by number desc limit 1) last on true

-- begin_origin(now, identity, place) --
-- differs: also stores the transaction numbers of the origin.
insert into wakeful_origin (number, identity, place, event_seq, run_seq, began_in, doubtful, began_at)
select coalesce(max(number) + 1, 0), :identity, :place,
  case when count(*) = 0 then 0 else (select coalesce(max(seq), 0) + 1 from wakeful_event) end,
  case when count(*) = 0 then 0 else (select coalesce(max(seq), 0) + 1 from wakeful_run) end,
  case when count(*) = 0 then 0 else cast(cast(pg_snapshot_xmin(pg_current_snapshot()) as text) as bigint) end,
  case when count(*) > 0 and exists (select 1 from wakeful_process where state = 'alive') then 1 else 0 end,
  {now}
from wakeful_origin
