-- The engine's tables on SQLite. Times are integers, microseconds since 1970 UTC; JSON is text.
-- Rows point at each other by `seq`, which grows: what belongs to the runs of the moment then lies on a few pages, and a
-- commit writes those few. Digests (`event.key`, `run.id`) are spread over the whole index: they are paid for once, at
-- acceptance.

create table wakeful_event (
  seq integer primary key,
  key text not null unique,               -- digest of app, source, id: the identity
  app text not null,
  source text not null,
  id text not null,
  type text not null,
  subject text,
  state text not null check (state in ('accepted', 'expired', 'unmatched', 'quarantined')),
  reason text,
  content text not null,                  -- digest of what it says: equal ones are a repeat, others are compared
  envelope text not null,                 -- the whole CloudEvent
  duplicates integer not null default 0,  -- how often it was delivered again
  accepted_at integer not null
) strict;
create index wakeful_event_id on wakeful_event (id);

-- The same identity with other content: a duplicate, kept to be shown.
create table wakeful_conflict (
  event_seq integer not null,
  content text not null,
  envelope text not null,
  seen_at integer not null,
  primary key (event_seq, content)
) strict, without rowid;

create table wakeful_admission (
  event_seq integer not null,
  agent text not null,
  state text not null check (state in ('started', 'joined', 'superseded', 'skipped', 'expired', 'denied')),
  run_id text,
  reason text,
  primary key (event_seq, agent)
) strict, without rowid;

create table wakeful_run (
  seq integer primary key,
  id text not null unique,
  root text not null,                     -- the first run of its family; replays and forks share it
  app text not null,
  agent text not null,
  event_seq integer not null,
  state text not null check (state in ('ready', 'running', 'waiting', 'held', 'parked', 'done', 'dead', 'denied', 'cancelled')),
  reason text,                            -- why it is in this state
  due_at integer,                         -- ready and waiting: not before this time
  owner text,                             -- the process that holds it
  token integer not null default 0,       -- rises with every claim: the fence
  attempts integer not null default 0,    -- failures of the handler
  crashes integer not null default 0,     -- processes that died with it
  expires_at integer,
  created_at integer not null,
  started_at integer,
  claimed_at integer,
  finished_at integer,
  output text,
  error text,
  outcome text
) strict;
-- Only what can be claimed is in these, so that a million finished runs cost a claim nothing.
create index wakeful_run_due on wakeful_run (app, agent, due_at) where state in ('ready', 'waiting');
create index wakeful_run_solo on wakeful_run (app, due_at) where state in ('ready', 'waiting') and crashes >= 2;
create index wakeful_run_owner on wakeful_run (owner) where state = 'running';

create table wakeful_step (
  run_seq integer not null,
  key text not null,                      -- name, digest of arguments, count among equal ones
  name text not null,
  state text not null check (state in ('done', 'failed', 'retrying', 'fact')),
  position integer not null,
  tries integer not null,
  attempt integer not null,
  arguments text,
  result text,
  error text,
  started_at integer not null,
  finished_at integer not null,
  primary key (run_seq, key)
) strict, without rowid;

-- Attempts that did not end the run well. The last, good one is on the run itself.
create table wakeful_attempt (
  run_seq integer not null,
  token integer not null,
  process text,
  outcome text not null,
  error text,
  started_at integer,
  ended_at integer not null,
  primary key (run_seq, token)
) strict, without rowid;

-- Policy's answers other than allow.
create table wakeful_decision (
  seq integer primary key,
  event_seq integer,
  run_seq integer,
  agent text not null,
  answer text not null,
  rule text not null,
  version text not null,
  reason text not null,
  decided_at integer not null
) strict;
create index wakeful_decision_event on wakeful_decision (event_seq);

create table wakeful_alarm (
  key text primary key,
  app text not null,
  state text not null check (state in ('open', 'acknowledged', 'resolved')),
  text text not null,
  count integer not null,
  opened_at integer not null,
  last_at integer not null
) strict;

create table wakeful_idempotency (
  app text not null,
  key text not null,
  request text not null,                  -- digest of the request it stands for
  response text not null,
  created_at integer not null,
  primary key (app, key)
) strict, without rowid;

create table wakeful_process (
  id text primary key,
  host text not null,
  pid integer not null,
  state text not null check (state in ('alive', 'stopped', 'dead')),
  started_at integer not null,
  lease_until integer not null
) strict;
create index wakeful_process_alive on wakeful_process (lease_until) where state = 'alive';

-- What people did, and who.
create table wakeful_operation (
  seq integer primary key,
  app text,
  operator text not null,
  verb text not null,
  target text,
  detail text,
  done_at integer not null
) strict;
