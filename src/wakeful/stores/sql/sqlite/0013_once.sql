-- Once per business key: which run has the key of an agent, and which effect has the key of an action.

-- A later event of the key joins the run that has it, until the key expires.
create table wakeful_once (
  app text not null,
  agent text not null,
  key text not null,
  run_id text not null,                   -- the first run of its family
  taken_at integer not null,
  expires_at integer not null,
  primary key (app, agent, key)
) strict, without rowid;
create index wakeful_once_expiry on wakeful_once (app, expires_at);

-- Runs that called another one, which had been started by an earlier event of the same key.
create table wakeful_caller (
  run_seq integer not null,
  parent_seq integer not null,
  parent_key text not null,               -- the step of the caller
  primary key (run_seq, parent_seq, parent_key)
) strict, without rowid;

-- The operation of an action is known by its key across runs: the effect that does it, or did it.
create table wakeful_operation_key (
  app text not null,
  action text not null,
  key text not null,
  effect_id text not null,
  taken integer not null,                 -- how often the key was taken: the operation id derives from this
  taken_at integer not null,
  expires_at integer not null,
  primary key (app, action, key)
) strict, without rowid;
create index wakeful_operation_key_expiry on wakeful_operation_key (app, expires_at);
create index wakeful_operation_key_effect on wakeful_operation_key (effect_id);

-- Effects that wait for the end of the one that has the key.
create table wakeful_follower (
  holder text not null,                   -- the effect that has the key
  effect_id text not null,                -- the effect that waits
  run_seq integer not null,
  primary key (holder, effect_id)
) strict, without rowid;

alter table wakeful_effect add column once text; -- the key, where its action has one
alter table wakeful_effect add column operation text; -- the operation id that is handed on, where it is not the effect's own id
alter table wakeful_effect add column follows text; -- the effect whose result this one has, or waits for
