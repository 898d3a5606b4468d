-- Runs found by what they touched: an action, or the trace that their event belongs to. (The subject of an event has an index.)

create index wakeful_effect_action on wakeful_effect (action, run_seq);

-- The trace of an event that came with one: from a caller, or out of a run. A trace that begins with its event is that event's key.
create table wakeful_trace (
  trace text not null,                    -- 32 hexadecimal digits, as in a W3C traceparent
  event_seq integer not null,
  primary key (trace, event_seq)
) strict, without rowid;
create index wakeful_trace_event on wakeful_trace (event_seq);
-- Here and not in the code that removes events: older processes remove them too.
create trigger wakeful_trace_removed after delete on wakeful_event begin
  delete from wakeful_trace where event_seq = old.seq;
end;

-- Apps that a person retired: nothing of them is expected any more.
create table wakeful_retired (
  app text primary key,
  retired_at integer not null,
  retired_by text not null,
  note text
) strict, without rowid;
