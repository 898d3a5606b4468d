-- Reminders: schedules with one occurrence, and whether the awaited event came by itself.

-- what_came() --
-- A mark of the newest event. Read before a reminder is made: every event after the mark came later.
select cast(coalesce(max(seq), 0) as text) from wakeful_event

-- came_since(app, type, mark, passed) --
-- Events after the mark and after the position `passed`, oldest first, without expired ones.
select id, source, envelope, accepted_at, cast(seq as text) from wakeful_event
where app = :app and type = :type and seq > max(cast(:mark as integer), cast(:passed as integer))
  and state in ('accepted', 'unmatched')
order by seq limit 100

-- page_of_reminders(app, state, after, most) --
-- Newest first; `after` is the seq of the last one seen.
select schedule.seq, schedule.app, schedule.name, schedule.state, schedule.definition, schedule.data, schedule.fired_at,
  schedule.created_at, schedule.changed_at, schedule.changed_by, schedule.last_run, run.state, run.output, run.error, run.reason,
  (select occurrence.reason from wakeful_occurrence occurrence where occurrence.schedule_seq = schedule.seq
   order by occurrence.seq desc limit 1)
from wakeful_schedule schedule left join wakeful_run run on run.id = schedule.last_run
where schedule.origin = 'reminder' and (cast(:app as text) is null or schedule.app = :app)
  and (cast(:state as text) is null or schedule.state = :state)
  and (cast(:after as bigint) is null or schedule.seq < :after)
order by schedule.seq desc limit :most

-- find_reminders(name, upper) --
-- By id or by a prefix of one.
select schedule.seq, schedule.app, schedule.name, schedule.state, schedule.definition, schedule.data, schedule.fired_at,
  schedule.created_at, schedule.changed_at, schedule.changed_by, schedule.last_run, run.state, run.output, run.error, run.reason,
  (select occurrence.reason from wakeful_occurrence occurrence where occurrence.schedule_seq = schedule.seq
   order by occurrence.seq desc limit 1)
from wakeful_schedule schedule left join wakeful_run run on run.id = schedule.last_run
where schedule.origin = 'reminder' and schedule.name >= :name and schedule.name < :upper
order by schedule.name limit 2
