-- Sources: where each of them stands, who reads it and how it is; other names of events; and what could not be taken in.

-- What brings events in from outside, one row for each. The cursor moves in the transaction that stores the events.
create table wakeful_source (
  app text not null,
  name text not null,
  kind text not null,                     -- webhook, files, bucket, postgres_changes, …
  agents text,                            -- JSON: the agents that it wakes, by the code that was started last
  state text not null check (state in ('idle', 'reading', 'paused', 'failing')),
  cursor text,                            -- where its reader goes on, in words of its own
  holder text,                            -- the process that reads it, where only one may
  token bigint not null default 0,       -- rises with every holder: the fence
  error text,                             -- why it is failing, or paused, and what to do
  since bigint not null,                 -- how long it has been in this state
  lag bigint,                            -- how old what was read last was when it was stored
  behind bigint,                         -- how much is known to wait on the other side
  taken bigint not null default 0,       -- events
  repeated bigint not null default 0,    -- of these, deliveries of what was known already
  refused bigint not null default 0,     -- turned away: a wrong signature, too much, too fast
  quarantined bigint not null default 0,
  event_at bigint,                       -- when the last event came
  read_at bigint,                        -- when somebody last looked
  primary key (app, name)
);

-- The things a source has seen, one by one: a file, an object. The version rises with every change, and after a removal.
create table wakeful_source_item (
  app text not null,
  source text not null,
  item text not null,
  version bigint not null,
  mark text not null,                     -- by which a change is told: size, time, digest
  gone bigint not null default 0,
  changed_at bigint not null,
  primary key (app, source, item)
);
create index wakeful_source_item_gone on wakeful_source_item (app, source, changed_at) where gone = 1;

-- Chains of events that came back to an agent, or went on for too long: how often within some time, and whether that was stopped.
create table wakeful_chain (
  app text not null,
  chain text not null,                    -- the key of the event that it began with
  agent text not null,
  began_at bigint not null,             -- of the time within which is counted
  rounds bigint not null,
  stopped_at bigint,                     -- somebody has heard of it
  primary key (app, chain, agent)
);
create index wakeful_chain_began on wakeful_chain ((app || ''), began_at);

-- Further names of an event, by which it is known when it comes again: a signature, say.
create table wakeful_alias (
  key text primary key,
  app text not null,
  event_key text not null,
  made_at bigint not null
);
create index wakeful_alias_made on wakeful_alias (app, made_at);

-- What could not be verified or read. The bytes are those of its event, which is quarantined.
create table wakeful_quarantine (
  event_seq bigint primary key,
  app text not null,
  source text not null,                   -- the name of the source
  kind text not null check (kind in ('unverified', 'unreadable')),
  size bigint not null,                 -- of the bytes
  headers text,                           -- JSON: what came along with the bytes
  state text not null check (state in ('kept', 'released', 'discarded')),
  became text,                            -- the key of the event that was made of it, the first if there are several
  made bigint,                          -- how many there are
  operator text,                          -- who settled it
  note text,
  settled_at bigint
);
create index wakeful_quarantine_kept on wakeful_quarantine (app, source, event_seq) where state = 'kept';
create index wakeful_quarantine_became on wakeful_quarantine (became) where became is not null;
