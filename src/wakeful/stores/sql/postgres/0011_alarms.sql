-- Alarms that reach a person: who asked for an answer and by when, which runs wait behind one cause, and who serves.

alter table wakeful_alarm add column addressee text; -- the channel that is named before the owner's: of a question, `to`
alter table wakeful_alarm add column remind_at bigint; -- told once more at this time, instead of again and again
alter table wakeful_alarm add column ending text; -- how it ended, where that is known: who answered, and what

-- Runs that are held, by the alarm that they share; and those of an app.
create index wakeful_run_held on wakeful_run (alarm) where state = 'held';
create index wakeful_run_held_app on wakeful_run (app, agent) where state = 'held';
-- Dead letters that keep their key from the runs behind them.
create index wakeful_run_blocking on wakeful_run (app, agent, finished_at) where state = 'dead' and place is not null;

-- The agents of an app, as the code that was started last declares them: for a watcher that has none of the code.
create table wakeful_agent (
  app text not null,
  name text not null,
  owner text,                             -- who hears of it
  starts_within bigint,                  -- how long a run may be ready before that is an alarm; null: the default
  primary key (app, name)
);

-- Which process answers requests to which webhook. The row of a process that is dead says since when nobody does.
create table wakeful_server (
  app text not null,
  source text not null,
  process text not null,
  since bigint not null,
  primary key (app, source, process)
);

alter table wakeful_source add column owner text; -- who hears of it
alter table wakeful_source add column lag_within bigint; -- how far behind it may be; null: the default
