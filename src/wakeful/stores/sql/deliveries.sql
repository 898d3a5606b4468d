-- Deliveries: stored with the commit of their run, delivered in order by the process that holds the lane.

-- insert_delivery(now, id, run_seq, token, app, channel, state, message, subject, position) --
-- Stored once, by the commit of the run that sent it: fenced by the run's token, and a committed run has stored its own.
insert into wakeful_delivery (id, run_seq, app, channel, state, message, subject, position, due_at, created_at)
select :id, seq, :app, :channel, :state, :message, :subject, :position, {now}, {now}
from wakeful_run where seq = :run_seq and token = :token and state = 'running' and committed_at is null

-- replace_dropped(id, run_seq, token) --
-- A delivery that a replay dropped with its held output, and that the handler sends again after all: it is one delivery and is shown
-- once. The remedy records what was held and who replayed it.
delete from wakeful_delivery where id = :id and run_seq = :run_seq and state = 'discarded'
  and exists (select 1 from wakeful_run where seq = :run_seq and token = :token and state = 'running' and committed_at is null)

-- release_deliveries(now, run_seq) --
update wakeful_delivery set state = 'pending', reason = null, due_at = {now} where run_seq = :run_seq and state = 'held'
returning channel

-- discard_deliveries(now, run_seq, reason) --
update wakeful_delivery set state = 'discarded', reason = :reason, settled_at = {now}
where run_seq = :run_seq and state = 'held'

-- load_sent(root) --
-- Deliveries committed for the family of a run: a later run of the family does not send them again.
select :root, delivery.id from wakeful_delivery delivery
where delivery.run_seq in (select seq from wakeful_run where id = :root union all select seq from wakeful_run where root = :root and id <> root)
  and delivery.state in ('pending', 'delivered', 'dead')

-- take_lane(app, channel, process) --
-- A lane that no process holds, or that this process holds without knowing it, because the answer was lost.
insert into wakeful_lane (app, channel, owner, token) values (:app, :channel, :process, 1)
on conflict (app, channel) do update set owner = excluded.owner, token = wakeful_lane.token + 1
where wakeful_lane.owner is null or wakeful_lane.owner = excluded.owner
returning token

-- keep_lane(app, channel, process, token) --
select token from wakeful_lane
where app = :app and channel = :channel and owner = :process and token = :token {for_update}

-- leave_lane(app, channel, token) --
update wakeful_lane set owner = null where app = :app and channel = :channel and token = :token

-- free_lanes(process) --
-- The lanes of a process that died or left.
update wakeful_lane set owner = null where owner = :process returning channel

-- next_deliveries(now, app, channel, most) --
-- In the order of their commits, with the time that each must still wait. Deliveries of halted agents stay where they are.
select delivery.seq, delivery.id, delivery.message, delivery.subject, delivery.created_at, delivery.tries,
  run.agent, run.id, delivery.due_at - {now},
  (select envelope from wakeful_event event where event.seq = run.event_seq), {now} - delivery.created_at, delivery.error
from wakeful_delivery delivery join wakeful_run run on run.seq = delivery.run_seq
where delivery.app = :app and delivery.channel = :channel and delivery.state = 'pending' and {goes_out}
order by delivery.seq limit :most

-- first_delivery(now, app, channel) --
-- Whether there is any delivery at all. Taking the lane is a write, which would wake other processes for nothing.
select due_at - {now} from wakeful_delivery where app = :app and channel = :channel and state = 'pending' and {goes_out}
order by seq limit 1

-- save_delivery(now, seq, state, tries, delay, error, reason) --
-- A delivery that a person discarded while it was in flight stays discarded, unless it has arrived.
update wakeful_delivery
set state = :state, tries = :tries, due_at = {now} + :delay, error = :error, reason = :reason,
    settled_at = case when cast(:state as text) <> 'pending' then {now} end
where seq = :seq and (state = 'pending' or (state = 'discarded' and cast(:state as text) = 'delivered'))

-- find_deliveries(root, id) --
select delivery.seq, delivery.state, delivery.run_seq, delivery.error, delivery.app, delivery.channel
from wakeful_delivery delivery
where delivery.id = :id
  and delivery.run_seq in (select seq from wakeful_run where id = :root union all select seq from wakeful_run where root = :root and id <> root)
order by delivery.seq desc

-- redo_delivery(now, seq, state, reason) --
update wakeful_delivery
set state = :state, reason = :reason, tries = case state when 'dead' then 0 else tries end, due_at = {now},
    error = case state when 'dead' then null else error end,
    settled_at = case when cast(:state as text) <> 'pending' then {now} end
where seq = :seq and state in ('dead', 'pending')
returning seq
