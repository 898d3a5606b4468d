-- Circuits: which dependencies are down, shared by all processes of an app. The rows are authoritative; what a process keeps of them
-- is a copy.

-- make_circuit(now, app, name, rest) --
insert into wakeful_circuit (app, name, state, failures, rest, changed_at) values (:app, :name, 'closed', 0, :rest, {now})
on conflict (app, name) do nothing

-- lock_circuit(app, name) --
-- Locked until the commit. Later statements read after the lock, and so see every run that was parked before it.
select name from wakeful_circuit where app = :app and name = :name {for_update}

-- find_circuit(now, app, name) --
-- With the facts for its next state: the state of its probe, and whether runs are parked for it.
select circuit.name, circuit.state, circuit.failures, circuit.error, circuit.rest, circuit.next_at, circuit.released,
  circuit.probe_seq, circuit.changed_at, {now},
  (select run.state from wakeful_run run where run.seq = circuit.probe_seq),
  (select 1 from wakeful_run run where run.app = :app and run.parked_for = :name and run.state = 'parked' limit 1),
  circuit.opened_at
from wakeful_circuit circuit where circuit.app = :app and circuit.name = :name

-- save_circuit(app, name, state, failures, error, rest, next_at, released, probe_seq, changed_at, opened_at) --
update wakeful_circuit
set state = :state, failures = :failures, error = :error, rest = :rest, next_at = :next_at, released = :released,
    probe_seq = :probe_seq, changed_at = :changed_at, opened_at = :opened_at
where app = :app and name = :name

-- unpark_runs(now, app, name, most, reason) --
-- Releases the oldest runs parked for a dependency. The time they were parked does not count for their deadline.
update wakeful_run
set state = 'ready', reason = :reason, parked_for = null, due_at = {now},
    started_at = started_at + ({now} - coalesce(due_at, {now}))
where seq in (
  select seq from wakeful_run where app = :app and parked_for = :name and state = 'parked' order by seq limit :most
)
returning seq

-- unpark_probe(now, app, name, most, reason) --
-- As unpark_runs, without paused or halted agents: no worker would claim such a probe, and all other runs would wait for it.
update wakeful_run
set state = 'ready', reason = :reason, parked_for = null, due_at = {now},
    started_at = started_at + ({now} - coalesce(due_at, {now}))
where seq in (
  select seq from wakeful_run where app = :app and parked_for = :name and state = 'parked'
    and not exists (
      select 1 from wakeful_pause pause where pause.app = :app and pause.agent in ('', wakeful_run.agent) and pause.paused = 1)
    and not exists (
      select 1 from wakeful_halt halt where halt.app = :app and halt.agent in ('', wakeful_run.agent) and halt.action = '')
  order by seq limit :most
)
returning seq

-- hasten_deliveries(now, app, channel) --
-- A channel's circuit is closed: retry its waiting deliveries now.
update wakeful_delivery set due_at = {now} where app = :app and channel = :channel and state = 'pending' and due_at > {now}

-- not_closed(app, name) --
-- For a run that is about to be parked: until its commit, no other transaction can close the circuit and miss this run.
select app, name from wakeful_circuit where app = :app and name = :name and state <> 'closed' {for_key_share}

-- note_parked(seq, token, name) --
update wakeful_run set parked_for = :name where seq = :seq and token = :token and state = 'parked'

-- circuits_of_app(now, app) --
-- All circuits except those that are closed, without failures and without parked runs.
select name, state, failures, error, rest, next_at, released, probe_seq, changed_at, {now},
  (select run.state from wakeful_run run where run.seq = circuit.probe_seq), parked, opened_at
from (
  select circuit.*,
    (select 1 from wakeful_run run
     where run.app = circuit.app and run.parked_for = circuit.name and run.state = 'parked' limit 1) as parked
  from wakeful_circuit circuit where circuit.app = :app
) circuit
where state <> 'closed' or failures > 0 or parked is not null

-- list_circuits() --
select circuit.app, circuit.name, circuit.state, circuit.failures, circuit.error, circuit.rest, circuit.next_at,
  circuit.released as came_back, circuit.changed_at,
  (select probe.id from wakeful_run probe where probe.seq = circuit.probe_seq) as probe,
  (select count(*) from wakeful_run run
   where run.app = circuit.app and run.parked_for = circuit.name and run.state = 'parked') as parked,
  circuit.opened_at,
  case when substr(circuit.name, 1, 8) = 'channel:' then
    (select count(*) from wakeful_delivery delivery
     where delivery.app = circuit.app and delivery.channel = substr(circuit.name, 9) and delivery.state = 'pending')
  else 0 end as waiting
from wakeful_circuit circuit order by circuit.app, circuit.name
