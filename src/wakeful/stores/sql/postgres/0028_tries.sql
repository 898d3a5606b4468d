-- Deliveries: a try that may have arrived, what the other side answered, lanes for urgent messages, threads.

-- One more state, `unknown`: it may have arrived, and a person must find out.
alter table wakeful_delivery drop constraint wakeful_delivery_state_check;
alter table wakeful_delivery add constraint wakeful_delivery_state_check
  check (state in ('held', 'pending', 'unknown', 'delivered', 'dead', 'discarded'));

alter table wakeful_delivery add column urgent bigint not null default 0; -- goes in the urgent lane of its channel
alter table wakeful_delivery add column thread text;                      -- its order holds within this thread; null: within its lane
alter table wakeful_delivery add column doubt_at bigint;                  -- when a call began that may have delivered it
alter table wakeful_delivery add column evidence text;                    -- JSON: what the other side answered, {"id", "url"}

-- Only what still waits in a thread, so that messages without one cost nothing.
create index wakeful_delivery_thread on wakeful_delivery (app, channel, thread, (seq + 0)) where state = 'pending' and thread is not null;
create index wakeful_delivery_urgent on wakeful_delivery (app, channel, (seq + 0)) where state = 'pending' and urgent = 1;
create index wakeful_delivery_unknown on wakeful_delivery (doubt_at, id) where state = 'unknown';
