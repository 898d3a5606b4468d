-- Queries about waits that must differ on PostgreSQL, each with the reason.

-- insert_wait(now, run_seq, key, type, subject, condition, variables) --
-- differs: an event that is being accepted at this moment does not see this wait, and this statement does not see the event. So the wait
-- stays marked until every transaction that was in flight has ended and the wait was checked again.
insert into wakeful_wait
  (run_seq, key, app, type, subject, condition, variables, settled, registered_at)
select seq, :key, app, :type, :subject, :condition, :variables, 0, {now}
from wakeful_run where seq = :run_seq
on conflict (run_seq, key) do nothing

-- find_waits(app, type, subject) --
-- differs: two lookups, so that no plan reads all waits for a type.
select run_seq, key, condition, variables from (
  select run_seq, key, condition, variables, registered_at from wakeful_wait
  where app = :app and type = :type and subject = '' and event_seq is null
  union all
  select run_seq, key, condition, variables, registered_at from wakeful_wait
  where app = :app and type = :type and subject = :subject and subject <> '' and event_seq is null
) as waiting
order by run_seq, registered_at, key

-- awaited_about(app, type, subject, skip, run_seq) --
-- differs: by the transaction that wrote the event: one that the run could not see when it was made. Transaction numbers of two servers
-- cannot be compared: for a run made before the store was restored into another server (wakeful_origin), all events that came there are
-- later. `app || ''` keeps the planner from walking all events of a type, `coalesce(seq, 0)` from walking all events.
select event.seq, event.envelope from wakeful_run run
cross join lateral (
  select 0 as later, event.seq, event.key, event.app, event.envelope, event.written_in
  from (
    select (select max(event_seq) from wakeful_origin where run_seq <= run.seq) as first,
      (select min(event_seq) from wakeful_origin where run_seq > run.seq) as beyond
  ) origin
  cross join wakeful_event event
  where event.subject = :subject and event.app || '' = :app and event.type || '' = :type
    and event.written_in >= pg_snapshot_xmin(run.made_in)
    and not pg_visible_in_snapshot(event.written_in, run.made_in)
    and coalesce(event.seq, 0) >= coalesce(origin.first, 0) and (origin.beyond is null or coalesce(event.seq, 0) < origin.beyond)
    and event.state in ('accepted', 'unmatched') and event.envelope <> ''
  union all
  select 1, event.seq, event.key, event.app, event.envelope, event.written_in
  from (select event_seq from wakeful_origin where run_seq > run.seq order by run_seq, event_seq limit 1) next
  cross join wakeful_event event
  where event.subject = :subject and event.app || '' = :app and event.type || '' = :type
    and coalesce(event.seq, 0) >= next.event_seq
    and event.state in ('accepted', 'unmatched') and event.envelope <> ''
) event
where run.seq = :run_seq and event.seq <> run.event_seq
  and not exists (select 1 from wakeful_wait taken where taken.run_seq = :run_seq and taken.event_seq = event.seq)
  and not exists (select 1 from wakeful_batch own where own.run_seq = :run_seq and own.event_seq = event.seq)
order by event.later, event.written_in, event.seq limit 100 offset :skip

-- awaited(app, type, skip, run_seq) --
-- differs: as awaited_about.
select event.seq, event.envelope from wakeful_run run
cross join lateral (
  select 0 as later, event.seq, event.key, event.app, event.envelope, event.written_in
  from (
    select (select max(event_seq) from wakeful_origin where run_seq <= run.seq) as first,
      (select min(event_seq) from wakeful_origin where run_seq > run.seq) as beyond
  ) origin
  cross join wakeful_event event
  where event.app = :app and event.type = :type
    and event.written_in >= pg_snapshot_xmin(run.made_in)
    and not pg_visible_in_snapshot(event.written_in, run.made_in)
    and coalesce(event.seq, 0) >= coalesce(origin.first, 0) and (origin.beyond is null or coalesce(event.seq, 0) < origin.beyond)
    and event.state in ('accepted', 'unmatched') and event.envelope <> ''
  union all
  select 1, event.seq, event.key, event.app, event.envelope, event.written_in
  from (select event_seq from wakeful_origin where run_seq > run.seq order by run_seq, event_seq limit 1) next
  cross join wakeful_event event
  where event.app = :app and event.type = :type
    and coalesce(event.seq, 0) >= next.event_seq
    and event.state in ('accepted', 'unmatched') and event.envelope <> ''
) event
where run.seq = :run_seq and event.seq <> run.event_seq
  and not exists (select 1 from wakeful_wait taken where taken.run_seq = :run_seq and taken.event_seq = event.seq)
  and not exists (select 1 from wakeful_batch own where own.run_seq = :run_seq and own.event_seq = event.seq)
order by event.later, event.written_in, event.seq limit 100 offset :skip

-- waits_of_run(run_seq) --
-- differs: `coalesce` keeps the planner from walking the index of all open waits.
select key, app, type, subject, condition, variables from wakeful_wait
where run_seq = :run_seq and coalesce(event_seq, 0) = 0
order by registered_at, key

-- close_wait(run_seq, key) --
-- differs: as waits_of_run.
delete from wakeful_wait where run_seq = :run_seq and key = :key and coalesce(event_seq, 0) = 0

-- close_waits(run_seq) --
-- differs: as waits_of_run.
delete from wakeful_wait where run_seq = :run_seq and coalesce(event_seq, 0) = 0

-- take_event(run_seq, key, event_seq) --
-- differs: as waits_of_run.
update wakeful_wait set event_seq = :event_seq, settled = 1
where run_seq = :run_seq and key = :key and coalesce(event_seq, 0) = 0
  and not exists (select 1 from wakeful_wait taken where taken.run_seq = :run_seq and taken.event_seq = :event_seq)
returning run_seq

-- note_misfit(run_seq, key, event_seq, reason) --
-- differs: as waits_of_run.
update wakeful_wait set misfit = (select id from wakeful_event where seq = :event_seq), reason = :reason
where run_seq = :run_seq and key = :key and coalesce(event_seq, 0) = 0

-- wake_run(now, seq, reason) --
-- differs: `state || ''` keeps the planner from walking an index of all runs in this state.
update wakeful_run set state = 'ready', due_at = {now}, reason = :reason
where seq = :seq and state || '' = 'waiting' and error is null
returning app, agent

-- snapshot_end() --
-- differs: exists only here. Every transaction in flight has a number below this one.
select cast(cast(pg_snapshot_xmax(pg_current_snapshot()) as text) as bigint)

-- snapshot_begin() --
-- differs: exists only here. Every transaction below this number has ended.
select cast(cast(pg_snapshot_xmin(pg_current_snapshot()) as text) as bigint)
