-- Time: schedules and what became of each of their instants, what should happen by when, and alarms as incidents.

-- Rules of time. The next instant stands here before it is due; what is over is in wakeful_occurrence.
create table wakeful_schedule (
  seq integer primary key,
  app text not null,
  name text not null,
  agent text not null,                    -- whose runs it starts
  origin text not null check (origin in ('code', 'runtime', 'reminder', 'heartbeat')),
  state text not null check (state in ('live', 'paused', 'done', 'removed')),
  revision integer not null,              -- rises with every change of its definition: who has another one fires nothing
  definition text not null,               -- JSON: the rule and its options
  data text,                              -- JSON: what its events carry
  owner text,
  next_at integer,                        -- the next instant; null: there is none
  done_until integer not null,         -- every instant up to this has been settled, or waits; a clock that is set back brings none again
  due_at integer,                         -- when that is fired: with its jitter
  queued_from integer,                    -- instants that were due while the run before them was not over
  queued_to integer,
  queued_before integer,                  -- the last but one of them
  queued_count integer not null default 0,
  waits_for text,                         -- that run
  last_at integer,                        -- the last instant that was fired
  last_run text,
  fired_at integer,                       -- and when
  created_at integer not null,
  changed_at integer not null,
  changed_by text not null,
  unique (app, name)
) strict;
create index wakeful_schedule_due on wakeful_schedule (app, due_at) where state = 'live' and due_at is not null;
create index wakeful_schedule_queued on wakeful_schedule (app, seq) where waits_for is not null;

-- What became of instants. Equal neighbours are one row.
create table wakeful_occurrence (
  seq integer primary key,
  schedule_seq integer not null,
  state text not null check (state in ('fired', 'missed', 'coalesced', 'skipped', 'superseded')),
  reason text,
  from_at integer not null,               -- the first of them
  to_at integer not null,                 -- and the last
  count integer not null,
  revision integer not null,
  run text,                               -- the run that was started, or into which they went
  settled_at integer not null,            -- when it was decided
  redone integer not null default 0       -- how many of them a backfill did later
) strict;
create index wakeful_occurrence_instant on wakeful_occurrence (schedule_seq, to_at);
create index wakeful_occurrence_run on wakeful_occurrence (run) where run is not null;

-- Who changed which schedule, and how it was before.
create table wakeful_schedule_change (
  seq integer primary key,
  schedule_seq integer not null,
  revision integer not null,              -- after the change
  verb text not null check (verb in ('add', 'edit', 'pause', 'resume', 'remove', 'fire', 'move')),
  operator text not null,
  note text,
  definition text,                        -- after the change
  changed_at integer not null
) strict;
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
  revision integer not null,
  since integer not null,                 -- nothing is expected before this
  met_at integer,                         -- when it was last met
  checked_at integer,
  primary key (app, name)
) strict, without rowid;

-- What was last heard of a source, of a script that checks in, and of an agent; and who worked for an app.
create index wakeful_event_source on wakeful_event (source, app, seq);
create index wakeful_event_checkin on wakeful_event (app, subject, seq) where type = 'wakeful.checkin';
create index wakeful_admission_agent on wakeful_admission (agent, event_seq);
create index wakeful_process_app on wakeful_process (app, started_at) where app is not null;

-- An alarm is an incident: it opens, somebody hears of it, at a rate; it is acknowledged, or muted, and resolves.
alter table wakeful_alarm add column agent text;
alter table wakeful_alarm add column owner text; -- who hears of it
alter table wakeful_alarm add column incident integer not null default 1; -- how often it has opened
alter table wakeful_alarm add column loud integer not null default 0; -- 1: it cannot be muted
alter table wakeful_alarm add column told integer not null default 0; -- how often somebody was told of this incident
alter table wakeful_alarm add column told_at integer;
alter table wakeful_alarm add column acknowledged_at integer;
alter table wakeful_alarm add column acknowledged_by text;
alter table wakeful_alarm add column note text;
alter table wakeful_alarm add column muted_until integer;
alter table wakeful_alarm add column resolved_at integer;
alter table wakeful_alarm add column tell_at integer; -- when somebody is to hear of it next; null: there is nothing to tell
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
  count integer not null,                   -- how many in a row, since it was last resumed
  since integer not null,
  last_at integer not null,
  primary key (app, agent)
);

-- An event that a wait's condition could not be asked of: the last one, and why.
alter table wakeful_wait add column misfit text; -- its id
alter table wakeful_wait add column reason text;
