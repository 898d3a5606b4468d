-- Schedules and their occurrences, for people.

-- page_of_schedules(app, agent, state, whole, after, most) --
-- In order of app and name; `after` is the seq of the last one seen. Without `whole`, reminders and removed schedules are left out.
select {schedule} from wakeful_schedule schedule
where (cast(:app as text) is null or schedule.app = :app)
  and (cast(:agent as text) is null or schedule.agent = :agent)
  and (cast(:state as text) is null or schedule.state = :state)
  and (cast(:whole as bigint) = 1 or (schedule.origin <> 'reminder' and (schedule.state <> 'removed' or cast(:state as text) is not null)))
  and (cast(:after as bigint) is null or (schedule.app, schedule.name) > (select app, name from wakeful_schedule where seq = :after))
order by schedule.app, schedule.name limit :most

-- schedules_named(name) --
-- In all apps.
select {schedule} from wakeful_schedule schedule where schedule.name = :name order by schedule.app

-- names_of_schedules(app) --
-- For suggestions when a name is not found.
select name from wakeful_schedule
where (cast(:app as text) is null or app = :app) and state <> 'removed' and origin <> 'reminder' order by name limit 10000

-- ledger_of_schedule(schedule_seq, before, most) --
-- The records of the last occurrences, the latest first, with the states of their runs.
select occurrence.seq, occurrence.state, occurrence.reason, occurrence.from_at, occurrence.to_at, occurrence.count,
  occurrence.revision, occurrence.run, occurrence.settled_at, occurrence.redone,
  (select run.state from wakeful_run run where run.id = occurrence.run)
from wakeful_occurrence occurrence
where occurrence.schedule_seq = :schedule_seq and occurrence.to_at < :before
order by occurrence.to_at desc, occurrence.seq desc limit :most

-- ledger_from(schedule_seq, occurrence) --
-- Rows of which one has the record of an occurrence.
select occurrence.seq, occurrence.state, occurrence.reason, occurrence.from_at, occurrence.to_at, occurrence.count,
  occurrence.revision, occurrence.run, occurrence.settled_at, occurrence.redone,
  (select run.state from wakeful_run run where run.id = occurrence.run)
from wakeful_occurrence occurrence
where occurrence.schedule_seq = :schedule_seq and occurrence.to_at >= :occurrence
order by occurrence.to_at, occurrence.seq limit 5

-- loaded_last(now, app) --
-- The agents of an app's living processes, and of the process that started last: a JSON list for each.
select agents from wakeful_process
where app = :app and agents is not null and ((state = 'alive' and lease_until > {now})
  or id = (select id from wakeful_process where app = :app and agents is not null order by started_at desc, id limit 1))

-- live_schedules() --
-- For each app: how many there are, and when the next one is due.
select app, count(*), min(due_at) from wakeful_schedule where state = 'live' and origin <> 'reminder' group by app order by app
