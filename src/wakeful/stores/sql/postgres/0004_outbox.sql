-- What leaves with a run's commit: messages on their way to channels, staged effects, and the state of an agent.
create table wakeful_delivery (
  seq bigint generated always as identity primary key, -- the order in which a channel gets them
  id text not null,                       -- the operation: root run, channel, digest of the message, count among equal ones
  run_seq bigint not null,
  app text not null,
  channel text not null,
  state text not null check (state in ('held', 'pending', 'delivered', 'dead', 'discarded')),
  reason text,                            -- why it is in this state
  message text not null,                  -- JSON
  subject text,
  error text,
  tries bigint not null default 0,
  position bigint not null,
  due_at bigint not null,                -- pending: not before this time
  created_at bigint not null,
  settled_at bigint
);
-- Only what is still to go is in this one, so that what has gone costs nothing. By `seq + 0`: in the order of `seq` the
-- planner would rather walk along the primary key, over everything that waits for other channels.
create index wakeful_delivery_pending on wakeful_delivery (app, channel, (seq + 0)) where state = 'pending';
create index wakeful_delivery_dead on wakeful_delivery (app, channel) where state = 'dead';
create index wakeful_delivery_run on wakeful_delivery (run_seq);

-- One process at a time delivers to a channel: else their order would not hold.
create table wakeful_lane (
  app text not null,
  channel text not null,
  owner text,
  token bigint not null,
  primary key (app, channel)
);

-- What an agent keeps from run to run.
create table wakeful_state (
  app text not null,
  agent text not null,
  key text not null,
  value text,                             -- JSON; null: nothing was saved yet, or it was cleared
  version bigint not null default 0,
  holder bigint,                         -- the run that has it; its runs are serial
  changed_by text,                        -- the run, or the person
  changed_at bigint,
  primary key (app, agent, key)
);

alter table wakeful_run add column committed_at bigint; -- its output passed; from then on only what it staged is left to do
alter table wakeful_run add column state_change text; -- of a run whose output is held: what it would save

alter table wakeful_effect drop constraint wakeful_effect_state_check;
alter table wakeful_effect add constraint wakeful_effect_state_check
  check (state in ('staged', 'intent', 'retrying', 'unknown', 'held', 'confirmed', 'failed', 'abandoned', 'undone'));
alter table wakeful_effect add column staged bigint not null default 0; -- released with the commit of its run
alter table wakeful_effect add column called_at bigint; -- the last call; null: when it was opened
alter table wakeful_effect add column due_at bigint; -- one that waits: not before this time
alter table wakeful_effect add column doubtful bigint not null default 0; -- a call of it may have been done, whatever later calls said
alter table wakeful_remedy drop constraint wakeful_remedy_verb_check;
alter table wakeful_remedy add constraint wakeful_remedy_verb_check check (verb in ('replay', 'again', 'discard', 'release', 'redeliver', 'drop'));
