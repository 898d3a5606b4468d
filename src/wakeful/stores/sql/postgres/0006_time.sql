-- Time: schedules and what became of each of their instants, what should happen by when, and alarms as incidents.

-- Rules of time. The next instant stands here before it is due; what is over is in wakeful_occurrence.
create table wakeful_schedule (
  seq bigint generated always as identity primary key,
  app text not null,
  name text not null,
  agent text not null,                    -- whose runs it starts
  origin text not null check (origin in ('code', 'runtime', 'reminder', 'heartbeat')),
  state text not null check (state in ('live', 'paused', 'done', 'removed')),
  revision bigint not null,              -- rises with every change of its definition: who has another one fires nothing
  definition text not null,               -- JSON: the rule and its options
  data text,                              -- JSON: what its events carry
  owner text,
  next_at bigint,                        -- the next instant; null: there is none
  done_until bigint not null,          -- every instant up to this has been settled, or waits; a clock that is set back brings none again
  due_at bigint,                         -- when that is fired: with its jitter
  queued_from bigint,                    -- instants that were due while the run before them was not over
  queued_to bigint,
  queued_before bigint,                   -- the last but one of them
  queued_count bigint not null default 0,
  waits_for text,                         -- that run
  last_at bigint,                        -- the last instant that was fired
  last_run text,
  fired_at bigint,                       -- and when
  created_at bigint not null,
  changed_at bigint not null,
  changed_by text not null,
  unique (app, name)
);
create index wakeful_schedule_due on wakeful_schedule (app, due_at) where state = 'live' and due_at is not null;
create index wakeful_schedule_queued on wakeful_schedule (app, seq) where waits_for is not null;

-- What became of instants. Equal neighbours are one row.
create table wakeful_occurrence (
  seq bigint generated always as identity primary key,
  schedule_seq bigint not null,
  state text not null check (state in ('fired', 'missed', 'coalesced', 'skipped', 'superseded')),
  reason text,
  from_at bigint not null,               -- the first of them
  to_at bigint not null,                 -- and the last
  count bigint not null,
  revision bigint not null,
  run text,                               -- the run that was started, or into which they went
  settled_at bigint not null,            -- when it was decided
  redone bigint not null default 0       -- how many of them a backfill did later
);
create index wakeful_occurrence_instant on wakeful_occurrence (schedule_seq, to_at);
create index wakeful_occurrence_run on wakeful_occurrence (run) where run is not null;

-- Who changed which schedule, and how it was before.
create table wakeful_schedule_change (
  seq bigint generated always as identity primary key,
  schedule_seq bigint not null,
  revision bigint not null,              -- after the change
  verb text not null check (verb in ('add', 'edit', 'pause', 'resume', 'remove', 'fire', 'move')),
  operator text not null,
  note text,
  definition text,                        -- after the change
  changed_at bigint not null
);
create index wakeful_schedule_change_of on wakeful_schedule_change (schedule_seq);

-- What should happen by when. Stored, so that somebody who has none of the code can watch.
create table wakeful_expectation (
  app text not null,
  name text not null,
  kind text not null check (kind in ('by', 'every', 'output')),
  definition text not null,               -- JSON
  agent text,
  owner text,
  state text not null check (state in ('live', 'removed')),
  revision bigint not null,
  since bigint not null,                 -- nothing is expected before this
  met_at bigint,                         -- when it was last met
  checked_at bigint,
  primary key (app, name)
);

-- What was last heard of a source, of a script that checks in, and of an agent; and who worked for an app.
create index wakeful_event_source on wakeful_event (source, (app || ''), (seq + 0));
create index wakeful_event_checkin on wakeful_event (app, subject, (seq + 0)) where type = 'wakeful.checkin';
create index wakeful_admission_agent on wakeful_admission (agent, (event_seq + 0));
create index wakeful_process_app on wakeful_process (app, started_at) where app is not null;

-- An alarm is an incident: it opens, somebody hears of it, at a rate; it is acknowledged, or muted, and resolves.
alter table wakeful_alarm add column agent text;
alter table wakeful_alarm add column owner text; -- who hears of it
alter table wakeful_alarm add column incident bigint not null default 1; -- how often it has opened
alter table wakeful_alarm add column loud bigint not null default 0; -- 1: it cannot be muted
alter table wakeful_alarm add column told bigint not null default 0; -- how often somebody was told of this incident
alter table wakeful_alarm add column told_at bigint;
alter table wakeful_alarm add column acknowledged_at bigint;
alter table wakeful_alarm add column acknowledged_by text;
alter table wakeful_alarm add column note text;
alter table wakeful_alarm add column muted_until bigint;
alter table wakeful_alarm add column resolved_at bigint;
alter table wakeful_alarm add column tell_at bigint; -- when somebody is to hear of it next; null: there is nothing to tell
create index wakeful_alarm_open on wakeful_alarm (app, key) where state <> 'resolved';
create index wakeful_alarm_tell on wakeful_alarm (app, tell_at) where tell_at is not null;

-- Which alarm a dead letter raised: with the last of them it is over.
alter table wakeful_run add column alarm text;
alter table wakeful_delivery add column alarm text;
create index wakeful_run_alarm on wakeful_run (alarm) where state = 'dead';
create index wakeful_delivery_alarm on wakeful_delivery (alarm) where state = 'dead';

-- Agents whose last runs ended dead, with none in between that went well. The next one that does removes the row.
create table wakeful_failing (
  app text not null,
  agent text not null,
  count bigint not null,                   -- how many in a row, since it was last resumed
  since bigint not null,
  last_at bigint not null,
  primary key (app, agent)
);

-- An event that a wait's condition could not be asked of: the last one, and why.
alter table wakeful_wait add column misfit text; -- its id
alter table wakeful_wait add column reason text;
