-- The places that the store has been in: see wakeful_origin.

-- list_origins() --
select number, identity, place, event_seq, began_at from wakeful_origin order by number

-- last_origin() --
-- The server or file that the store was last found on. The third column is used on PostgreSQL only.
select number, identity, 0 from wakeful_origin order by number desc limit 1

-- restored_before() --
-- Runs below this number may have continued elsewhere, after the copy was made that this store was restored from.
select coalesce(max(run_seq), 0) from wakeful_origin where doubtful = 1

-- begin_origin(now, identity, place) --
-- The first origin covers everything that exists; a later one covers what comes from now on.
insert into wakeful_origin (number, identity, place, event_seq, run_seq, began_in, doubtful, began_at)
select coalesce(max(number) + 1, 0), :identity, :place,
  case when count(*) = 0 then 0 else (select coalesce(max(seq), 0) + 1 from wakeful_event) end,
  case when count(*) = 0 then 0 else (select coalesce(max(seq), 0) + 1 from wakeful_run) end,
  0,
  case when count(*) > 0 and exists (select 1 from wakeful_process where state = 'alive') then 1 else 0 end,
  {now}
from wakeful_origin
