-- Deliveries, as they must differ on PostgreSQL.

-- insert_delivery(now, id, run_seq, token, app, channel, state, message, subject, position, urgent, thread) bulk --
-- differs: as save_step. Numbered in the order of the calls, which is the order of the rows.
insert into wakeful_delivery (id, run_seq, app, channel, state, message, subject, position, due_at, created_at, urgent, thread)
select given.id, given.run_seq, given.app, given.channel, given.state, given.message, given.subject, given.position, {now}, {now},
  case when given.thread is null then given.urgent else coalesce((
    select ahead.urgent from wakeful_delivery ahead
    where ahead.app = given.app and ahead.channel = given.channel and ahead.thread = given.thread and ahead.state = 'pending' limit 1
  ), given.urgent) end,
  given.thread
from unnest(
  cast(:id as text[]), cast(:run_seq as bigint[]), cast(:token as bigint[]), cast(:app as text[]), cast(:channel as text[]),
  cast(:state as text[]), cast(:message as text[]), cast(:subject as text[]), cast(:position as bigint[]), cast(:urgent as bigint[]),
  cast(:thread as text[])
) with ordinality as given (id, run_seq, token, app, channel, state, message, subject, position, urgent, thread, place)
join wakeful_run run on run.seq = any(array[given.run_seq]) and run.token = given.token and run.owner is not null
  and run.committed_at is null
order by given.place

-- first_delivery(now, app, channel, urgent) --
-- differs: as next_deliveries.
select min(due_at) - {now} from (
  select * from (
    select due_at from wakeful_delivery
    where app = :app and channel = :channel and state = 'pending' and urgent = :urgent and thread is null and {goes_out}
    order by seq + 0 limit 1
  ) as in_order
  union all
  select due_at from wakeful_delivery head
  where app = :app and channel = :channel and state = 'pending' and urgent = :urgent and thread is not null and {goes_out}
    and {first_of_thread}
) as waiting
having min(due_at) is not null

-- next_deliveries(now, app, channel, urgent, most) --
-- differs: its index is on `seq + 0`. The run and the event of each delivery are looked up by key: a join may be planned in the other
-- direction, over all runs.
select delivery.seq, delivery.id, delivery.message, delivery.subject, delivery.created_at, delivery.tries,
  run.agent, run.id, delivery.due_at - {now}, (select envelope from wakeful_event event where event.seq = run.event_seq),
  {now} - delivery.created_at, delivery.error,
  delivery.thread, {doubt_at}, {closed_by}
from wakeful_delivery delivery
cross join lateral (select agent, id, app, event_seq from wakeful_run where seq = delivery.run_seq) run
where delivery.seq = any(array(
  select * from (
    select seq from wakeful_delivery
    where app = :app and channel = :channel and state = 'pending' and urgent = :urgent and thread is null and {goes_out}
    order by seq + 0 limit :most
  ) as in_order
  union all
  select * from (
    select seq from wakeful_delivery head
    where app = :app and channel = :channel and state = 'pending' and urgent = :urgent and thread is not null and {goes_out}
      and {first_of_thread}
    order by due_at, seq + 0 limit :most
  ) as heads
))
order by delivery.seq

-- save_delivery(now, seq, state, tries, delay, error, reason, doubtful, evidence, closes) bulk --
-- differs: as save_step. `|| ''` keeps the planner from the index of pending deliveries: a plan that was made while there were few
-- would read all of them instead of looking up each one, and is kept when there are a hundred thousand.
update wakeful_delivery delivery
set state = given.state, tries = given.tries, due_at = {now} + given.delay, error = given.error, reason = given.reason,
    doubt_at = case when given.doubtful = 1 then coalesce(delivery.doubt_at, {now}) end, evidence = given.evidence, closes = given.closes,
    settled_at = case when given.state not in ('pending', 'unknown') then {now} end
from unnest(
  cast(:seq as bigint[]), cast(:state as text[]), cast(:tries as bigint[]), cast(:delay as bigint[]), cast(:error as text[]),
  cast(:reason as text[]), cast(:doubtful as bigint[]), cast(:evidence as text[]), cast(:closes as bigint[])
) as given (seq, state, tries, delay, error, reason, doubtful, evidence, closes)
where delivery.seq = any(array[given.seq])
  and (delivery.state || '' = 'pending' or (delivery.state = 'discarded' and given.state = 'delivered'))

-- redo_delivery(now, seq, state, reason) --
-- differs: as save_delivery.
update wakeful_delivery
set state = :state, reason = :reason, tries = case state when 'pending' then tries else 0 end, due_at = {now},
    error = case state when 'pending' then error end, doubt_at = case state when 'unknown' then null else doubt_at end,
    settled_at = case when cast(:state as text) <> 'pending' then {now} end
where seq = :seq and state || '' in ('dead', 'unknown', 'pending')
returning seq

-- load_sent(root) --
-- differs: the family of a run is looked up by two indexes, one after the other. An `or` of both would walk all runs. With
-- `= any(array(…))` each delivery is found by its run.
select :root, delivery.id from wakeful_delivery delivery
where delivery.run_seq = any(array(
    select seq from wakeful_run where id = :root
    union all
    select seq from wakeful_run where root = :root and id <> root
  ))
  and delivery.state || '' in ('pending', 'unknown', 'delivered', 'dead')

-- find_deliveries(root, id) --
-- differs: as load_sent.
select delivery.seq, delivery.state, delivery.run_seq, delivery.error, delivery.app, delivery.channel
from wakeful_delivery delivery
where delivery.id = :id
  and delivery.run_seq = any(array(
    select seq from wakeful_run where id = :root
    union all
    select seq from wakeful_run where root = :root and id <> root
  ))
order by delivery.seq + 0 desc
