-- Runs that wait, that go in an order, and that are limited: what each of them is measured by.

alter table wakeful_run add column key text; -- runs of one key go one at a time, in order; null: it has none
alter table wakeful_run add column place integer; -- its place in the order of its key, as long as it keeps the key
alter table wakeful_run add column priority integer; -- null: nothing in its app has one
alter table wakeful_run add column gathering_since integer; -- it waits for more events, or for a newer one; since when
alter table wakeful_run add column gathers_until integer;
alter table wakeful_run add column gathered integer not null default 1; -- how many events it is over
alter table wakeful_run add column version text; -- of its agent's code, when it began
alter table wakeful_run add column parent_seq integer; -- the run that called it, and waits for its output
alter table wakeful_run add column parent_key text; -- the step of that run
alter table wakeful_run add column parked_for text; -- the dependency that it waits for
alter table wakeful_run add column cancel_at integer; -- a person, or its caller, wants it to stop; since when
alter table wakeful_run add column cancel_by text;
alter table wakeful_run add column cancel_note text;
create index wakeful_run_key on wakeful_run (app, agent, key, place) where place is not null;
create index wakeful_run_gathering on wakeful_run (app, agent, coalesce(key, ''), seq) where state = 'ready' and gathering_since is not null;
create index wakeful_run_parked on wakeful_run (app, parked_for, seq) where state = 'parked';
create index wakeful_run_child on wakeful_run (parent_seq) where parent_seq is not null;
-- By agent, so that those of a limited one can be counted; there are never many, so those of a process are found as well.
drop index wakeful_run_owner;
create index wakeful_run_running on wakeful_run (app, agent, owner) where state = 'running';
-- Those that have started before: a rate limits only first starts, and these must be found behind any number of fresh ones.
create index wakeful_run_resumed on wakeful_run (app, agent, due_at + 0) where state in ('ready', 'waiting') and token > 0;

-- What a run waits for may have come before it asked.
create index wakeful_event_type on wakeful_event (app, type, seq);
create index wakeful_event_subject on wakeful_event (subject, app, type, seq) where subject is not null;

-- One row per key: locked by whoever accepts or ends a run of it.
create table wakeful_key (
  app text not null,
  agent text not null,
  key text not null,
  counter integer not null,               -- the last place that was given
  most integer not null default 1,        -- how many runs may have it at once
  blocks integer not null default 1,     -- a dead letter keeps its place until a person acts
  primary key (app, agent, key)
) strict, without rowid;

-- The events of a run that is over many.
create table wakeful_batch (
  run_seq integer not null,
  event_seq integer not null,
  position integer not null,
  parent_seq integer,                   -- the run whose call brought it, and waits for the output
  parent_key text,
  primary key (run_seq, event_seq)
) strict, without rowid;

-- What runs wait for. A row that has an event was answered: no later wait of its run takes that event again.
create table wakeful_wait (
  run_seq integer not null,
  key text not null,                      -- the step
  app text not null,
  type text not null,
  subject text not null default '',       -- '': any
  condition text,                         -- CEL
  variables text,                         -- JSON: the values that the condition names
  event_seq integer,
  settled integer not null default 1,     -- 0: an event that was being accepted at the same time may have missed it
  registered_at integer not null,
  primary key (run_seq, key)
) strict, without rowid;
create index wakeful_wait_open on wakeful_wait (app, type, subject) where event_seq is null;
create index wakeful_wait_taken on wakeful_wait (event_seq) where event_seq is not null;
create index wakeful_wait_unsettled on wakeful_wait (app, registered_at) where settled = 0;

-- Questions to people.
create table wakeful_approval (
  seq integer primary key,
  id text not null unique,
  app text not null,
  agent text not null,
  run_seq integer not null,
  key text not null,                      -- the step that waits for the answer
  question text not null,
  asked_of text,
  schema text,                            -- JSON schema of the answer
  state text not null check (state in ('open', 'answered', 'expired', 'withdrawn')),
  answer text,                            -- JSON
  answered_by text,
  note text,
  asked_at integer not null,
  due_at integer,
  answered_at integer,
  unique (run_seq, key)
) strict;
create index wakeful_approval_open on wakeful_approval (app, seq) where state = 'open';

-- Agents with a limit for all processes together: locked by whoever claims runs of one. What the limit is stands in the code
-- of the process that claims; here is what the last one that joined said, for people to see.
create table wakeful_limit (
  app text not null,
  agent text not null,                    -- '': all of the app, while it comes back at a rate
  concurrency integer,
  most integer,                          -- starts `within` so many microseconds
  within integer,
  primary key (app, agent)
) strict, without rowid;
-- When runs of an agent with a rate were started: as far back as the rate looks. What comes back after a pause is counted
-- apart, under 'resume AGENT', or 'resume ' for all of the app.
create table wakeful_start (
  app text not null,
  agent text not null,
  started_at integer not null,
  run_seq integer not null,
  token integer not null,
  primary key (app, agent, started_at, run_seq, token)
) strict, without rowid;

-- What people paused; agent '' is all of the app.
create table wakeful_pause (
  app text not null,
  agent text not null,
  paused integer not null,
  rate text,                              -- after a resume: no more than this, until the backlog is gone
  operator text not null,
  note text,
  changed_at integer not null,
  primary key (app, agent)
) strict, without rowid;

-- Locks that runs hold. One whose run does not run any more under that token is free.
create table wakeful_lock (
  app text not null,
  name text not null,
  token integer not null,                 -- rises with every holder: the fence
  run_seq integer,
  run_token integer,
  taken_at integer not null,
  primary key (app, name)
) strict, without rowid;
-- Runs that wait for one, for people to see. A row whose run does not run any more under that token is of the past.
create table wakeful_lock_wait (
  run_seq integer not null,
  name text not null,
  app text not null,
  run_token integer not null,
  since integer not null,
  primary key (run_seq, name)
) strict, without rowid;

-- Dependencies that are, or were, down.
create table wakeful_circuit (
  app text not null,
  name text not null,
  state text not null check (state in ('closed', 'open', 'probing', 'recovering')),
  failures integer not null,
  error text,                             -- the last one
  rest integer not null,                  -- how long it rests before the next probe
  next_at integer,                        -- open: when to probe; recovering: when the next ones come back
  released integer not null default 0,    -- recovering: how many came back at a time, the last time
  probe_seq integer,                      -- the run that may try
  changed_at integer not null,
  primary key (app, name)
) strict, without rowid;

-- Values that are too large for their rows.
create table wakeful_blob (
  id text primary key,
  content text not null,
  created_at integer not null
) strict, without rowid;

-- The keys that payloads are encrypted with, by their ids: the keys themselves are never stored.
create table wakeful_cipher (
  id text primary key,
  used_since integer not null
) strict, without rowid;

alter table wakeful_effect add column undoes text; -- the effect that this one undoes
alter table wakeful_process add column app text;
alter table wakeful_process add column agents text; -- JSON: the agents that it has loaded

-- Tables' checks cannot be changed here: they are made anew.
alter table wakeful_step rename to wakeful_step_before;
create table wakeful_step (
  run_seq integer not null,
  key text not null,                      -- name, digest of arguments, count among equal ones
  name text not null,
  state text not null check (state in ('done', 'failed', 'retrying', 'waiting', 'fact')),
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
insert into wakeful_step select * from wakeful_step_before;
drop table wakeful_step_before;

alter table wakeful_remedy rename to wakeful_remedy_before;
create table wakeful_remedy (
  seq integer primary key,
  run_seq integer not null,
  verb text not null check (verb in ('replay', 'again', 'discard', 'release', 'redeliver', 'drop', 'fork', 'cancel', 'answer', 'resume')),
  operator text not null,
  note text,
  data text,                              -- the edited data, where it was edited
  error text,                             -- what the run had ended with before
  done_at integer not null
) strict;
insert into wakeful_remedy select * from wakeful_remedy_before;
drop table wakeful_remedy_before;
create index wakeful_remedy_run on wakeful_remedy (run_seq);
