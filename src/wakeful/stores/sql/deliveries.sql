-- Deliveries: stored with the commit of their run, delivered in order by the process that holds the lane.

-- insert_delivery(now, id, run_seq, token, app, channel, state, message, subject, position, urgent, thread) --
-- Stored once, by the commit of the run that sent it: fenced by the run's token, and a committed run has stored its own. Behind a message
-- of its thread that still waits it goes in the same lane, because order holds within a lane only.
insert into wakeful_delivery (id, run_seq, app, channel, state, message, subject, position, due_at, created_at, urgent, thread)
select :id, seq, :app, :channel, :state, :message, :subject, :position, {now}, {now},
  case when :thread is null then :urgent else coalesce((
    select ahead.urgent from wakeful_delivery ahead
    where ahead.app = :app and ahead.channel = :channel and ahead.thread = :thread and ahead.state = 'pending' limit 1
  ), :urgent) end,
  :thread
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
  and delivery.state in ('pending', 'unknown', 'delivered', 'dead')

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

-- next_deliveries(now, app, channel, urgent, most) --
-- Of one lane: messages without a thread in the order of their commits, and of each thread the first. Each with the time that it must
-- still wait, and with the delivery that closed its thread. Deliveries of halted agents stay where they are.
select delivery.seq, delivery.id, delivery.message, delivery.subject, delivery.created_at, delivery.tries,
  run.agent, run.id, delivery.due_at - {now},
  (select envelope from wakeful_event event where event.seq = run.event_seq), {now} - delivery.created_at, delivery.error,
  delivery.thread, {doubt_at}, {closed_by}
from wakeful_delivery delivery join wakeful_run run on run.seq = delivery.run_seq
where delivery.seq in (
  select * from (
    select seq from wakeful_delivery
    where app = :app and channel = :channel and state = 'pending' and urgent = :urgent and thread is null and {goes_out}
    order by seq limit :most
  ) as in_order
  union all
  select * from (
    select seq from wakeful_delivery head
    where app = :app and channel = :channel and state = 'pending' and urgent = :urgent and thread is not null and {goes_out}
      and {first_of_thread}
    order by due_at, seq limit :most
  ) as heads
)
order by delivery.seq

-- first_delivery(now, app, channel, urgent) --
-- When the next delivery of a lane is due. Taking the lane is a write, which would wake other processes for nothing.
select min(due_at) - {now} from (
  select * from (
    select due_at from wakeful_delivery
    where app = :app and channel = :channel and state = 'pending' and urgent = :urgent and thread is null and {goes_out}
    order by seq limit 1
  ) as in_order
  union all
  select due_at from wakeful_delivery head
  where app = :app and channel = :channel and state = 'pending' and urgent = :urgent and thread is not null and {goes_out}
    and {first_of_thread}
) as waiting
having min(due_at) is not null

-- begin_delivery(now, seq) --
-- A call begins that the other side may take although its answer is lost: stored before the call. Returned if it may still go out.
-- `|| ''` as in save_delivery of PostgreSQL.
update wakeful_delivery set doubt_at = {now}, tries = tries + 1
where seq = :seq and state || '' = 'pending' and {goes_out}
returning seq

-- save_delivery(now, seq, state, tries, delay, error, reason, doubtful, evidence, closes) --
-- A delivery that a person discarded while it was in flight stays discarded, unless it has arrived.
update wakeful_delivery
set state = :state, tries = :tries, due_at = {now} + :delay, error = :error, reason = :reason,
    doubt_at = case when :doubtful = 1 then coalesce(doubt_at, {now}) end, evidence = :evidence, closes = :closes,
    settled_at = case when cast(:state as text) not in ('pending', 'unknown') then {now} end
where seq = :seq and (state = 'pending' or (state = 'discarded' and cast(:state as text) = 'delivered'))

-- find_deliveries(root, id) --
select delivery.seq, delivery.state, delivery.run_seq, delivery.error, delivery.app, delivery.channel
from wakeful_delivery delivery
where delivery.id = :id
  and delivery.run_seq in (select seq from wakeful_run where id = :root union all select seq from wakeful_run where root = :root and id <> root)
order by delivery.seq desc

-- redo_delivery(now, seq, state, reason) --
-- A person who replays an unknown delivery takes the doubt on themselves: it is sent again without a further question.
update wakeful_delivery
set state = :state, reason = :reason, tries = case state when 'pending' then tries else 0 end, due_at = {now},
    error = case state when 'pending' then error end, doubt_at = case state when 'unknown' then null else doubt_at end,
    settled_at = case when cast(:state as text) <> 'pending' then {now} end
where seq = :seq and state in ('dead', 'unknown', 'pending')
returning seq

-- confirm_delivery(now, seq, reason, evidence) --
-- A person found that it has arrived.
update wakeful_delivery
set state = 'delivered', reason = :reason, evidence = coalesce(:evidence, evidence), doubt_at = null, error = null, settled_at = {now}
where seq = :seq and state || '' = 'unknown'
returning seq
