-- One query for everything that a process may have to do, in place of one query for each part.

-- glance(now, app, agents, channels, older) raw --
-- The kind, the name, and the time until it is due; null if there is nothing. `agents` and `channels` are JSON lists. Each answer is
-- the first entry of an index.
select 'run', value, (
    select min(due_at) from wakeful_run where app = :app and agent = value and state in ('ready', 'waiting')
  ) - {now} from json_each(:agents)
union all
select 'delivery', value, (
    select min(due_at) from (
      select * from (
        select due_at from wakeful_delivery
        where app = :app and channel = value and state = 'pending' and urgent = 0 and thread is null and {goes_out}
        order by seq limit 1
      ) as in_order
      union all
      select * from (
        select due_at from wakeful_delivery
        where app = :app and channel = value and state = 'pending' and urgent = 1 and thread is null and {goes_out}
        order by seq limit 1
      ) as urgent
      union all
      select due_at from wakeful_delivery head
      where app = :app and channel = value and state = 'pending' and thread is not null and {goes_out} and {first_of_thread}
    ) as waiting
  ) - {now} from json_each(:channels)
union all
select 'alarm', null, (select min(tell_at) from wakeful_alarm where app = :app and tell_at is not null) - {now}
union all
select 'schedule', null, case
  when exists (select 1 from wakeful_schedule where app = :app and waits_for is not null and state = 'live') then 0
  else (select min(due_at) from wakeful_schedule where app = :app and state = 'live' and due_at is not null) - {now} end
union all
select 'circuit', null, (
    select 1 from wakeful_circuit circuit
    where circuit.app = :app and (circuit.state <> 'closed' or circuit.failures > 0 or exists (
      select 1 from wakeful_run run where run.app = circuit.app and run.parked_for = circuit.name and run.state = 'parked'
    ))
    limit 1
  )
union all
select 'wait', null, (
    select 1 from wakeful_wait where app = :app and settled = 0 and registered_at <= {now} - :older limit 1)
union all
select 'held', source.name, 1 from wakeful_source source
where source.app = :app
  and (select lease_until from wakeful_process where id = source.holder and state = 'alive') > {now}
