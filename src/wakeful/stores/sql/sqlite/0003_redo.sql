-- What people did to runs that were over: who, why, and with which data instead of the event's own.
create table wakeful_remedy (
  seq integer primary key,
  run_seq integer not null,
  verb text not null check (verb in ('replay', 'again', 'discard')),
  operator text not null,
  note text,
  data text,                              -- the edited data, where it was edited
  error text,                             -- what the run had ended with before
  done_at integer not null
) strict;
create index wakeful_remedy_run on wakeful_remedy (run_seq);
alter table wakeful_run add column data text; -- handed to the handler instead of the event's own
create index wakeful_run_dead on wakeful_run (app, agent) where state = 'dead';
create index wakeful_run_root on wakeful_run (root) where id <> root;
