-- Queries about expectations that must differ on PostgreSQL, each with the reason.

-- checkins(app, subject, most) --
-- differs: the index is on `seq + 0`. Without it, the planner may walk the primary key past all other events.
select accepted_at from wakeful_event
where app = :app and subject = :subject and type = 'wakeful.checkin' and state <> 'quarantined'
order by seq + 0 desc limit :most

-- arrivals_of_type(app, type, most) --
-- differs: by the transaction that wrote the event, which the index has. In a store that was restored into another server
-- (wakeful_origin), events that came there are the newest, independent of their numbers; earlier events are read only if those are not enough.
with origin as materialized (
  select event_seq, cast(cast(began_in as text) as xid8) as began_in from wakeful_origin order by number desc limit 1
),
newest as materialized (
  select accepted_at, written_in from wakeful_event
  where app = :app and type = :type and state <> 'quarantined'
    and written_in >= coalesce((select began_in from origin), '0') and written_in < pg_snapshot_xmax(pg_current_snapshot())
    and coalesce(seq, 0) >= coalesce((select event_seq from origin), 0)
  order by written_in desc limit :most
)
select accepted_at from (
  select 1 as later, written_in, accepted_at from newest
  union all
  select 0, written_in, accepted_at from (
    select written_in, accepted_at from wakeful_event
    where (select event_seq from origin) > 0 and (select count(*) from newest) < :most
      and app = :app and type = :type and state <> 'quarantined' and coalesce(seq, 0) < (select event_seq from origin)
    order by written_in desc limit :most
  ) before
) arrived
order by later desc, written_in desc limit :most

-- arrivals_from(app, source, most) --
-- differs: as checkins. The index is on `app || ''`, which keeps the planner from walking all events of the app.
select accepted_at from wakeful_event
where source = :source and app || '' = :app and state <> 'quarantined' order by seq + 0 desc limit :most

-- admissions_of_agent(app, agent, most, skip) --
-- differs: as checkins. `= any(array[…])` forces a lookup of each row by its key, and `app || '/'` matches no index.
select event.accepted_at, admission.state, admission.reason, run.seq, run.id, run.agent, run.state, run.created_at,
  run.started_at, run.finished_at, run.due_at, run.reason, run.parked_for
from wakeful_admission admission
join wakeful_event event on event.seq = any(array[admission.event_seq])
left join wakeful_run run on run.id = any(array[admission.run_id])
where admission.agent = :agent and event.app || '/' = cast(:app as text) || '/' and admission.state <> 'skipped'
order by admission.event_seq + 0 desc limit :most offset :skip

-- schedules_to_judge(now, app, whole) --
-- differs: `= any(array[…])`, as in admissions_of_agent. Several occurrences with the same time exist only if one was fired by hand, and
-- then any of them counts as the last: with an order by seq too, the planner may read all of them.
select schedule.name, schedule.agent, schedule.owner, schedule.state, schedule.definition, schedule.next_at, schedule.due_at,
  schedule.queued_from, schedule.last_at, schedule.changed_by, occurrence.state, occurrence.to_at, occurrence.reason,
  run.id, run.agent, run.state, run.created_at, run.started_at, run.finished_at, run.due_at, run.reason, run.parked_for
from wakeful_schedule schedule
left join wakeful_occurrence occurrence on occurrence.seq = any(array[(
  select last.seq from wakeful_occurrence last
  where last.schedule_seq = schedule.seq order by last.to_at desc limit 1
)])
left join wakeful_run run on run.id = any(array[schedule.last_run])
where schedule.app = :app
  and (
    cast(:whole as bigint) = 1 and (schedule.state in ('live', 'paused') or schedule.state = 'done' and schedule.origin <> 'reminder')
    or schedule.state = 'live' and (schedule.due_at <= {now} - 1000000 or schedule.queued_from is not null)
    or schedule.state in ('live', 'done') and (run.state not in ('done', 'cancelled') or occurrence.state in ('missed', 'skipped'))
  )
order by schedule.name
