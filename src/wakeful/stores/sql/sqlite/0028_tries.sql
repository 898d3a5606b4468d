-- Deliveries: a try that may have arrived, what the other side answered, lanes for urgent messages, threads.

-- One more state, `unknown`: it may have arrived, and a person must find out. A check cannot be altered here, so the schema is edited, as in
-- 0027. It becomes: check (state in ('held', 'pending', 'unknown', 'delivered', 'dead', 'discarded'))
pragma writable_schema = on;
update sqlite_schema set sql = replace(sql, '(''held'', ''pending'', ''delivered''', '(''held'', ''pending'', ''unknown'', ''delivered''')
where type = 'table' and name = 'wakeful_delivery';
pragma writable_schema = reset;

alter table wakeful_delivery add column urgent integer not null default 0; -- goes in the urgent lane of its channel
alter table wakeful_delivery add column thread text;                       -- its order holds within this thread; null: within its lane
alter table wakeful_delivery add column doubt_at integer;                  -- when a call began that may have delivered it
alter table wakeful_delivery add column evidence text;                     -- JSON: what the other side answered, {"id", "url"}

-- Only what still waits in a thread, so that messages without one cost nothing.
create index wakeful_delivery_thread on wakeful_delivery (app, channel, thread, seq) where state = 'pending' and thread is not null;
create index wakeful_delivery_urgent on wakeful_delivery (app, channel, seq) where state = 'pending' and urgent = 1;
create index wakeful_delivery_unknown on wakeful_delivery (doubt_at, id) where state = 'unknown';
