-- The query for all work, as it must differ on PostgreSQL.

-- glance(now, app, agents, channels, older) raw --
-- differs: another function unfolds a list; deliveries as in first_delivery; and a union needs explicit types.
select 'run', given.name, (
    select min(due_at) from wakeful_run where app = :app and agent = given.name and state in ('ready', 'waiting')
  ) - {now} from json_array_elements_text(cast(:agents as json)) as given (name)
union all
select 'delivery', given.name, (
    select min(due_at) from (
      select * from (
        select due_at from wakeful_delivery
        where app = :app and channel = given.name and state = 'pending' and urgent = 0 and thread is null and {goes_out}
        order by seq + 0 limit 1
      ) as in_order
      union all
      select * from (
        select due_at from wakeful_delivery
        where app = :app and channel = given.name and state = 'pending' and urgent = 1 and thread is null and {goes_out}
        order by seq + 0 limit 1
      ) as urgent
      union all
      select due_at from wakeful_delivery head
      where app = :app and channel = given.name and state = 'pending' and thread is not null and {goes_out} and {first_of_thread}
    ) as waiting
  ) - {now} from json_array_elements_text(cast(:channels as json)) as given (name)
union all
select 'alarm', null, (select min(tell_at) from wakeful_alarm where app = :app and tell_at is not null) - {now}
union all
select 'schedule', null, case
  when exists (select 1 from wakeful_schedule where app = :app and waits_for is not null and state = 'live') then 0
  else (select min(due_at) from wakeful_schedule where app = :app and state = 'live' and due_at is not null) - {now} end
union all
select 'circuit', null, cast((
    select 1 from wakeful_circuit circuit
    where circuit.app = :app and (circuit.state <> 'closed' or circuit.failures > 0 or exists (
      select 1 from wakeful_run run where run.app = circuit.app and run.parked_for = circuit.name and run.state = 'parked'
    ))
    limit 1
  ) as bigint)
union all
select 'wait', null, cast((
    select 1 from wakeful_wait where app = :app and settled = 0
      and registered_at <= {now} - cast(:older as bigint) limit 1) as bigint)
union all
select 'held', source.name, cast(1 as bigint) from wakeful_source source
where source.app = :app
  and (select lease_until from wakeful_process where id = source.holder and state = 'alive') > {now}
