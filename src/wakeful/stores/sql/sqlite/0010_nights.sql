-- Nights: since when a circuit is open, and what is tried again for long.

alter table wakeful_circuit add column opened_at integer; -- when it opened; kept while it is probed and recovers

-- Steps that wait to be tried again, and runs whose handler does: the few that an outage leaves.
create index wakeful_step_retrying on wakeful_step (run_seq) where state = 'retrying';
create index wakeful_step_failing on wakeful_step (run_seq) where key = 'failing';
