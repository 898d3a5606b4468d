-- What must differ on PostgreSQL for expectations, each with its reason.

-- checkins(app, subject, most) --
-- differs: `seq + 0` is what the index has. Without it the planner might walk along the primary key, past everything else.
select accepted_at from wakeful_event
where app = :app and subject = :subject and type = 'wakeful.checkin' and state <> 'quarantined'
order by seq + 0 desc limit :most

-- arrivals_of_type(app, type, most) --
-- differs: by the transaction that wrote it, which is what the index has.
select accepted_at from wakeful_event
where app = :app and type = :type and state <> 'quarantined' order by written_in desc limit :most

-- arrivals_from(app, source, most) --
-- differs: as checkins. `app || ''` is what the index has, and keeps the planner from walking along all events of the app.
select accepted_at from wakeful_event
where source = :source and app || '' = :app and state <> 'quarantined' order by seq + 0 desc limit :most

-- admissions_of_agent(app, agent, most) --
-- differs: as checkins. `= any(array[…])` makes it look up each row by its key, and no index has `app || '/'`.
select event.accepted_at, admission.state, admission.reason, run.seq, run.id, run.agent, run.state, run.created_at,
  run.started_at, run.finished_at, run.due_at, run.reason, run.parked_for
from wakeful_admission admission
join wakeful_event event on event.seq = any(array[admission.event_seq])
left join wakeful_run run on run.id = any(array[admission.run_id])
where admission.agent = :agent and event.app || '/' = cast(:app as text) || '/' and admission.state <> 'skipped'
order by admission.event_seq + 0 desc limit :most
