-- What leaves with a run's commit: messages on their way to channels, staged effects, and the state of an agent.
create table wakeful_delivery (
  seq integer primary key, -- the order in which a channel gets them
  id text not null,                       -- the operation: root run, channel, digest of the message, count among equal ones
  run_seq integer not null,
  app text not null,
  channel text not null,
  state text not null check (state in ('held', 'pending', 'delivered', 'dead', 'discarded')),
  reason text,                            -- why it is in this state
  message text not null,                  -- JSON
  subject text,
  error text,
  tries integer not null default 0,
  position integer not null,
  due_at integer not null,                -- pending: not before this time
  created_at integer not null,
  settled_at integer
) strict;
-- Only what is still to go is in this one, so that what has gone costs nothing.
create index wakeful_delivery_pending on wakeful_delivery (app, channel, seq) where state = 'pending';
create index wakeful_delivery_dead on wakeful_delivery (app, channel) where state = 'dead';
create index wakeful_delivery_run on wakeful_delivery (run_seq);

-- One process at a time delivers to a channel: else their order would not hold.
create table wakeful_lane (
  app text not null,
  channel text not null,
  owner text,
  token integer not null,
  primary key (app, channel)
) strict;

-- What an agent keeps from run to run.
create table wakeful_state (
  app text not null,
  agent text not null,
  key text not null,
  value text,                             -- JSON; null: nothing was saved yet, or it was cleared
  version integer not null default 0,
  holder integer,                         -- the run that has it; its runs are serial
  changed_by text,                        -- the run, or the person
  changed_at integer,
  primary key (app, agent, key)
) strict;

alter table wakeful_run add column committed_at integer; -- its output passed; from then on only what it staged is left to do
alter table wakeful_run add column state_change text; -- of a run whose output is held: what it would save

-- A table's checks cannot be changed here: it is made anew with one more state.
alter table wakeful_effect rename to wakeful_effect_before;
create table wakeful_effect (
  seq integer primary key,
  id text not null unique,                -- the operation: root run, action, digest of arguments, count among equal ones
  root text not null,                     -- replays and forks of a run share its effects
  run_seq integer not null,               -- the run that asked for it last
  app text not null,
  agent text not null,
  action text not null,
  reference text not null,                -- module:name, where the function is found again to settle it
  safety text not null check (safety in ('idempotent', 'reconcile', 'at_most_once')),
  state text not null check (state in ('staged', 'intent', 'retrying', 'unknown', 'held', 'confirmed', 'failed', 'abandoned', 'undone')),
  reason text,                            -- why it is in this state
  arguments text not null,                -- JSON, whole: a settlement calls with these
  result text,
  error text,
  tries integer not null,
  attempt integer not null,
  position integer not null,
  opened_at integer not null,
  settled_at integer,
  settled_by text,                        -- the person, where it was one
  note text,
  staged integer not null default 0,      -- released with the commit of its run
  called_at integer,                      -- the last call; null: when it was opened
  due_at integer,                         -- one that waits: not before this time
  doubtful integer not null default 0     -- a call of it may have been done, whatever later calls said
) strict;
insert into wakeful_effect
  (seq, id, root, run_seq, app, agent, action, reference, safety, state, reason, arguments, result, error,
  tries, attempt, position, opened_at, settled_at, settled_by, note)
select
  seq, id, root, run_seq, app, agent, action, reference, safety, state, reason, arguments, result, error,
  tries, attempt, position, opened_at, settled_at, settled_by, note
from wakeful_effect_before;
drop table wakeful_effect_before;
create index wakeful_effect_root on wakeful_effect (root);
create index wakeful_effect_open on wakeful_effect (state) where state in ('intent', 'retrying', 'unknown', 'held');

alter table wakeful_remedy rename to wakeful_remedy_before;
create table wakeful_remedy (
  seq integer primary key,
  run_seq integer not null,
  verb text not null check (verb in ('replay', 'again', 'discard', 'release', 'redeliver', 'drop')),
  operator text not null,
  note text,
  data text,                              -- the edited data, where it was edited
  error text,                             -- what the run had ended with before
  done_at integer not null
) strict;
insert into wakeful_remedy select * from wakeful_remedy_before;
drop table wakeful_remedy_before;
create index wakeful_remedy_run on wakeful_remedy (run_seq);
