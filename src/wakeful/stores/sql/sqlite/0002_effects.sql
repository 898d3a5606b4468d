-- The ledger of what runs do to the outside world.
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
  state text not null check (state in ('intent', 'retrying', 'unknown', 'held', 'confirmed', 'failed', 'abandoned', 'undone')),
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
  note text
) strict;
create index wakeful_effect_root on wakeful_effect (root);
create index wakeful_effect_open on wakeful_effect (state) where state in ('intent', 'retrying', 'unknown', 'held');
