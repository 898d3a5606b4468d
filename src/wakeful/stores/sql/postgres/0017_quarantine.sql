-- Quarantine of what could not be verified: how much room it takes, and what was cut so that it stays below its ceiling.

-- Bytes of its event and of what came along, and some for its rows. Null: kept by an older version, so it is estimated.
alter table wakeful_quarantine add column room bigint;
update wakeful_quarantine set room = 1024
  + coalesce(
    (select length(blob.content) from wakeful_blob blob join wakeful_event event on blob.id = substr(event.envelope, 7)
     where event.seq = wakeful_quarantine.event_seq and substr(event.envelope, 1, 6) = '@blob:'),
    (select length(event.envelope) from wakeful_event event where event.seq = wakeful_quarantine.event_seq), 0)
  + coalesce(
    (select length(blob.content) from wakeful_blob blob
     where blob.id = substr(wakeful_quarantine.headers, 7) and substr(wakeful_quarantine.headers, 1, 6) = '@blob:'),
    length(headers), 0)
where kind = 'unverified' and state <> 'released';
-- The oldest first, and their sum: what a stranger sent and no person vouched for.
create index wakeful_quarantine_unverified on wakeful_quarantine (app, event_seq, room, size)
where kind = 'unverified' and state <> 'released';

-- The sum, kept in the transactions that change it: a request that is refused must not cost a look at all of them.
create table wakeful_quarantine_room (
  app text primary key,
  held bigint not null
);
insert into wakeful_quarantine_room (app, held)
select app, sum(room) from wakeful_quarantine where kind = 'unverified' and state <> 'released' group by app;

-- What was cut, for ever: of which source, because of the bytes or of the days.
create table wakeful_quarantine_cut (
  app text not null,
  source text not null,
  why text not null check (why in ('bytes', 'days')),
  number bigint not null,
  bytes bigint not null,
  since bigint not null,
  last_at bigint not null,
  primary key (app, source, why)
);
