-- Runs that wait, that go in an order, and that are limited: what each of them is measured by.

alter table wakeful_run add column key text; -- runs of one key go one at a time, in order; null: it has none
alter table wakeful_run add column place bigint; -- its place in the order of its key, as long as it keeps the key
alter table wakeful_run add column priority bigint; -- null: nothing in its app has one
alter table wakeful_run add column gathering_since bigint; -- it waits for more events, or for a newer one; since when
alter table wakeful_run add column gathers_until bigint;
alter table wakeful_run add column gathered bigint not null default 1; -- how many events it is over
alter table wakeful_run add column version text; -- of its agent's code, when it began
alter table wakeful_run add column parent_seq bigint; -- the run that called it, and waits for its output
alter table wakeful_run add column parent_key text; -- the step of that run
alter table wakeful_run add column parked_for text; -- the dependency that it waits for
alter table wakeful_run add column cancel_at bigint; -- a person, or its caller, wants it to stop; since when
alter table wakeful_run add column cancel_by text;
alter table wakeful_run add column cancel_note text;
create index wakeful_run_key on wakeful_run (app, agent, key, place) where place is not null;
create index wakeful_run_gathering on wakeful_run (app, agent, coalesce(key, ''), (seq + 0)) where state || '' = 'ready' and gathering_since is not null;
create index wakeful_run_parked on wakeful_run (app, parked_for, (seq + 0)) where state = 'parked';
create index wakeful_run_child on wakeful_run (parent_seq) where parent_seq is not null;
-- By agent, so that those of a limited one can be counted; there are never many, so those of a process are found as well.
drop index wakeful_run_owner;
create index wakeful_run_running on wakeful_run (app, agent, owner) where state = 'running';
-- Without the state in its condition, so that no plan takes the index of all due runs for it.
drop index wakeful_run_solo;
create index wakeful_run_solo on wakeful_run (app, due_at) where crashes >= 2 and due_at is not null;
-- Those that have started before: a rate limits only first starts, and these must be found behind any number of fresh ones.
create index wakeful_run_resumed on wakeful_run (app, agent, (due_at + 0)) where state in ('ready', 'waiting') and token > 0;

-- What a run waits for may have come before it asked, but not before it was made. `seq` does not tell: an event whose number
-- was given first may be committed last. So each event has the transaction that wrote it, and each run what it could see.
alter table wakeful_event add column written_in xid8;
alter table wakeful_event alter column written_in set default pg_current_xact_id();
alter table wakeful_run add column made_in pg_snapshot;
alter table wakeful_run alter column made_in set default pg_current_snapshot();
create index wakeful_event_type on wakeful_event (app, type, written_in);
create index wakeful_event_subject on wakeful_event (subject, app, type, written_in) where subject is not null;

-- One row per key: locked by whoever accepts or ends a run of it.
create table wakeful_key (
  app text not null,
  agent text not null,
  key text not null,
  counter bigint not null,               -- the last place that was given
  most bigint not null default 1,        -- how many runs may have it at once
  blocks bigint not null default 1,      -- a dead letter keeps its place until a person acts
  primary key (app, agent, key)
);

-- The events of a run that is over many.
create table wakeful_batch (
  run_seq bigint not null,
  event_seq bigint not null,
  position bigint not null,
  parent_seq bigint,                    -- the run whose call brought it, and waits for the output
  parent_key text,
  primary key (run_seq, event_seq)
);

-- What runs wait for. A row that has an event was answered: no later wait of its run takes that event again.
create table wakeful_wait (
  run_seq bigint not null,
  key text not null,                      -- the step
  app text not null,
  type text not null,
  subject text not null default '',       -- '': any
  condition text,                         -- CEL
  variables text,                         -- JSON: the values that the condition names
  event_seq bigint,
  settled bigint not null default 1,     -- 0: an event that was being accepted at the same time may have missed it
  registered_at bigint not null,
  primary key (run_seq, key)
);
create index wakeful_wait_open on wakeful_wait (app, type, subject) where event_seq is null;
create index wakeful_wait_taken on wakeful_wait (event_seq) where event_seq is not null;
create index wakeful_wait_unsettled on wakeful_wait (app, registered_at) where settled = 0;

-- Questions to people.
create table wakeful_approval (
  seq bigint generated always as identity primary key,
  id text not null unique,
  app text not null,
  agent text not null,
  run_seq bigint not null,
  key text not null,                      -- the step that waits for the answer
  question text not null,
  asked_of text,
  schema text,                            -- JSON schema of the answer
  state text not null check (state in ('open', 'answered', 'expired', 'withdrawn')),
  answer text,                            -- JSON
  answered_by text,
  note text,
  asked_at bigint not null,
  due_at bigint,
  answered_at bigint,
  unique (run_seq, key)
);
create index wakeful_approval_open on wakeful_approval (app, seq) where state = 'open';

-- Agents with a limit for all processes together: locked by whoever claims runs of one. What the limit is stands in the code
-- of the process that claims; here is what the last one that joined said, for people to see.
create table wakeful_limit (
  app text not null,
  agent text not null,                    -- '': all of the app, while it comes back at a rate
  concurrency bigint,
  most bigint,                          -- starts `within` so many microseconds
  within bigint,
  primary key (app, agent)
);
-- When runs of an agent with a rate were started: as far back as the rate looks. What comes back after a pause is counted
-- apart, under 'resume AGENT', or 'resume ' for all of the app.
create table wakeful_start (
  app text not null,
  agent text not null,
  started_at bigint not null,
  run_seq bigint not null,
  token bigint not null,
  primary key (app, agent, started_at, run_seq, token)
);

-- What people paused; agent '' is all of the app.
create table wakeful_pause (
  app text not null,
  agent text not null,
  paused bigint not null,
  rate text,                              -- after a resume: no more than this, until the backlog is gone
  operator text not null,
  note text,
  changed_at bigint not null,
  primary key (app, agent)
);

-- Locks that runs hold. One whose run does not run any more under that token is free.
create table wakeful_lock (
  app text not null,
  name text not null,
  token bigint not null,                 -- rises with every holder: the fence
  run_seq bigint,
  run_token bigint,
  taken_at bigint not null,
  primary key (app, name)
);
-- Runs that wait for one, for people to see. A row whose run does not run any more under that token is of the past.
create table wakeful_lock_wait (
  run_seq bigint not null,
  name text not null,
  app text not null,
  run_token bigint not null,
  since bigint not null,
  primary key (run_seq, name)
);

-- Dependencies that are, or were, down.
create table wakeful_circuit (
  app text not null,
  name text not null,
  state text not null check (state in ('closed', 'open', 'probing', 'recovering')),
  failures bigint not null,
  error text,                             -- the last one
  rest bigint not null,                  -- how long it rests before the next probe
  next_at bigint,                        -- open: when to probe; recovering: when the next ones come back
  released bigint not null default 0,    -- recovering: how many came back at a time, the last time
  probe_seq bigint,                      -- the run that may try
  changed_at bigint not null,
  primary key (app, name)
);

-- Values that are too large for their rows.
create table wakeful_blob (
  id text primary key,
  content text not null,
  created_at bigint not null
);

-- The keys that payloads are encrypted with, by their ids: the keys themselves are never stored.
create table wakeful_cipher (
  id text primary key,
  used_since bigint not null
);

alter table wakeful_effect add column undoes text; -- the effect that this one undoes
alter table wakeful_process add column app text;
alter table wakeful_process add column agents text; -- JSON: the agents that it has loaded

alter table wakeful_step drop constraint wakeful_step_state_check;
alter table wakeful_step add constraint wakeful_step_state_check
  check (state in ('done', 'failed', 'retrying', 'waiting', 'fact'));
alter table wakeful_remedy drop constraint wakeful_remedy_verb_check;
alter table wakeful_remedy add constraint wakeful_remedy_verb_check
  check (verb in ('replay', 'again', 'discard', 'release', 'redeliver', 'drop', 'fork', 'cancel', 'answer', 'resume'));

-- These keep their history and change only at its end. By its defaults autovacuum comes when a fifth of a table is dead: the
-- longer the history, the more dead rows a claim would read past, in the index of what is due.
alter table wakeful_run set (autovacuum_vacuum_scale_factor = 0.02);
alter table wakeful_effect set (autovacuum_vacuum_scale_factor = 0.02);
alter table wakeful_delivery set (autovacuum_vacuum_scale_factor = 0.02);
