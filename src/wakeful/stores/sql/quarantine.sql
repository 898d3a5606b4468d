-- Quarantined inputs, for people: listed, shown, and removed when they are closed and old.

-- page_of_quarantine(after, most, app, source, kind, state) --
-- Newest first. Its bytes are not among it: a page of them would be large.
select event.seq, event.key, quarantine.app, quarantine.source, quarantine.kind, quarantine.state, event.reason, quarantine.size,
  event.duplicates + 1 as came, event.accepted_at as first_at, quarantine.operator as settled_by, quarantine.settled_at,
  quarantine.note, quarantine.became as became_key, quarantine.made, event.source as event_source, event.id as event_id
from wakeful_quarantine quarantine join wakeful_event event on event.seq = quarantine.event_seq
where (cast(:app as text) is null or quarantine.app = :app)
  and (cast(:source as text) is null or quarantine.source = :source)
  and (cast(:kind as text) is null or quarantine.kind = :kind)
  and (cast(:state as text) is null or quarantine.state = :state)
  and (cast(:after as bigint) is null or quarantine.event_seq < :after)
order by quarantine.event_seq desc limit :most

-- find_quarantined(lower, upper) --
-- By its key, or the beginning of it, whole.
select event.seq, event.key, quarantine.app, quarantine.source, quarantine.kind, quarantine.state, event.reason, quarantine.size,
  event.duplicates + 1 as came, event.accepted_at as first_at, quarantine.operator as settled_by, quarantine.settled_at,
  quarantine.note, quarantine.became as became_key, quarantine.made, event.source as event_source, event.id as event_id,
  quarantine.headers, event.envelope, quarantine.form, event.accepted_at as received
from wakeful_event event join wakeful_quarantine quarantine on quarantine.event_seq = event.seq
where event.key >= :lower and event.key < :upper order by event.key limit 2

-- kept_of_source(app, source, kind, after, most) --
-- Inputs that wait for a person, the oldest first: the order in which a bulk operation goes through them.
select quarantine.event_seq, event.key
from wakeful_quarantine quarantine join wakeful_event event on event.seq = quarantine.event_seq
where quarantine.app = :app and quarantine.source = :source and quarantine.state = 'kept' and quarantine.event_seq > :after
  and (cast(:kind as text) is null or quarantine.kind = :kind)
order by quarantine.event_seq limit :most

-- waiting_inputs() --
-- How many inputs wait for a person, by source and kind, with the newest of each.
select waiting.app, waiting.source, waiting.kind, waiting.number, event.key, event.reason, event.accepted_at
from (
  select app, source, kind, count(*) as number, max(event_seq) as newest from wakeful_quarantine where state = 'kept'
  group by app, source, kind) waiting
join wakeful_event event on event.seq = waiting.newest
order by waiting.number desc, waiting.app, waiting.source, waiting.kind

-- released_from(became) --
-- What an event was made of, if it was in quarantine before. Neither joined nor in order: that would be along the primary key.
select (select event.key from wakeful_event event where event.seq = quarantine.event_seq) as key, quarantine.operator as "by",
  quarantine.settled_at as at
from wakeful_quarantine quarantine where quarantine.became = :became

-- forget_headers(event_seq) --
-- The headers are removed together with the bytes.
update wakeful_quarantine set headers = null where event_seq = :event_seq and headers is not null

-- remove_quarantine(event_seq) --
-- Returns the room that it took, if it was counted.
delete from wakeful_quarantine where event_seq = :event_seq
returning app, case when kind = 'unverified' and state <> 'released' then coalesce(room, size * 4 / 3 + 1024) else 0 end

-- oldest_event() --
-- The oldest event in the store.
select accepted_at from wakeful_event where seq = (select min(seq) from wakeful_event)

-- sources_with_gone(app) --
-- Sources with items that are gone, and since when the first of them.
select source, min(changed_at) from wakeful_source_item where app = :app and gone = 1 group by source
