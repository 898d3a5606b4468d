-- What should have happened by when, and the facts for a watcher without the app's code to judge whether it did.

-- keep_expectation(now, app, name, kind, definition, agent, owner) --
-- A changed expectation counts from now on.
insert into wakeful_expectation (app, name, kind, definition, agent, owner, state, revision, since)
values (:app, :name, :kind, :definition, :agent, :owner, 'live', 1, {now})
on conflict (app, name) do update
set kind = excluded.kind, definition = excluded.definition, agent = excluded.agent, owner = excluded.owner, state = 'live',
    revision = wakeful_expectation.revision + 1,
    since = case
      when wakeful_expectation.state = 'live' and wakeful_expectation.definition = excluded.definition
        and coalesce(wakeful_expectation.agent, '') = coalesce(excluded.agent, '') then wakeful_expectation.since
      else excluded.since
    end
where wakeful_expectation.state <> 'live' or wakeful_expectation.definition <> excluded.definition
  or coalesce(wakeful_expectation.agent, '') <> coalesce(excluded.agent, '')
  or coalesce(wakeful_expectation.owner, '') <> coalesce(excluded.owner, '')

-- names_of_expectations(app) --
select name from wakeful_expectation where app = :app and state = 'live'

-- remove_expectation(app, name) --
update wakeful_expectation set state = 'removed' where app = :app and name = :name

-- note_met(now, app, name, met_at) --
update wakeful_expectation set met_at = :met_at, checked_at = {now}
where app = :app and name = :name and coalesce(met_at, 0) < :met_at

-- expectations_of_app(app) --
select name, definition, agent, owner, since, met_at from wakeful_expectation
where app = :app and state = 'live' order by name

-- list_expectations() --
select app, definition from wakeful_expectation where state = 'live'

-- watched_apps() --
-- Apps with something to watch, or with an open alarm of such a kind; without retired apps.
select app from wakeful_expectation where state = 'live'
union select app from wakeful_schedule where state <> 'removed'
union select app from wakeful_source
union select app from wakeful_agent
union select app from wakeful_process where state = 'alive' and app is not null
union select app from wakeful_alarm where state <> 'resolved'
  and (substr(key, 1, 7) = 'expect/' or substr(key, 1, 5) = 'down/' or substr(key, 1, 9) = 'retrying/' or substr(key, 1, 8) = 'limited/')
except select app from wakeful_retired

-- alarms_of_watching(app) --
-- The open alarms about an app's expectations, each with its cause; null if the version that raised it last stored none.
select key, case when cause_at = last_at then cause end from wakeful_alarm
where app = :app and state <> 'resolved' and (
  substr(key, 1, 7) = 'expect/' or substr(key, 1, 5) = 'down/' or substr(key, 1, 8) in ('waiting/', 'blocked/')
  or substr(key, 1, 4) = 'lag/' or substr(key, 1, 9) = 'retrying/' or substr(key, 1, 8) = 'limited/'
  or substr(key, 1, 9) = 'delivery/' and substr(key, length(key) - 4) = '/late')

-- retrying_steps(app, most) --
-- Steps that wait to be retried, the oldest runs first; without parked runs, because their circuit has an alarm of its own.
select run.agent, step.name, step.error, (select owner from wakeful_agent agent where agent.app = :app and agent.name = run.agent)
from wakeful_step step join wakeful_run run on run.seq = step.run_seq
where step.state = 'retrying' and run.app = :app and run.state in ('waiting', 'ready', 'running')
order by step.run_seq limit :most

-- retrying_effects(app, most) --
select effect.agent, effect.action, effect.error,
  (select owner from wakeful_agent agent where agent.app = :app and agent.name = effect.agent)
from wakeful_effect effect join wakeful_run run on run.seq = effect.run_seq
where effect.state in ('retrying', 'unknown') and effect.app = :app and effect.error is not null
  and run.state in ('waiting', 'ready', 'running')
order by effect.seq limit :most

-- retrying_handlers(app, most, since) --
-- Runs whose handler failed. A run that is being retried is one of them, unless it was claimed before `since`: that one got further.
select run.agent, 'handler', step.result, (select owner from wakeful_agent agent where agent.app = :app and agent.name = run.agent)
from wakeful_step step join wakeful_run run on run.seq = step.run_seq
where step.key = 'failing' and run.app = :app
  and (run.state in ('waiting', 'ready') or run.state = 'running' and run.claimed_at >= :since)
order by step.run_seq limit :most

-- schedules_to_judge(now, app, whole) --
-- Schedules with a due or queued occurrence, or whose last run did not succeed or has not ended; `whole`: all of them, except for
-- finished reminders. Due occurrences are fired at once, so only those that have been due for a second are interesting.
select schedule.name, schedule.agent, schedule.owner, schedule.state, schedule.definition, schedule.next_at, schedule.due_at,
  schedule.queued_from, schedule.last_at, schedule.changed_by, occurrence.state, occurrence.to_at, occurrence.reason,
  run.id, run.agent, run.state, run.created_at, run.started_at, run.finished_at, run.due_at, run.reason, run.parked_for
from wakeful_schedule schedule
left join wakeful_occurrence occurrence on occurrence.seq = (
  select last.seq from wakeful_occurrence last
  where last.schedule_seq = schedule.seq order by last.to_at desc, last.seq desc limit 1
)
left join wakeful_run run on run.id = schedule.last_run
where schedule.app = :app
  and (
    cast(:whole as bigint) = 1 and (schedule.state in ('live', 'paused') or schedule.state = 'done' and schedule.origin <> 'reminder')
    or schedule.state = 'live' and (schedule.due_at <= {now} - 1000000 or schedule.queued_from is not null)
    or schedule.state in ('live', 'done') and (run.state not in ('done', 'cancelled') or occurrence.state in ('missed', 'skipped'))
  )
order by schedule.name

-- count_live_schedules(app) --
select count(*) from (select 1 from wakeful_schedule where app = :app and state = 'live' and due_at is not null limit 1) as live

-- count_unfinished(app) --
-- Whether an app has unfinished work. Each kind is searched by its own index, and one row is enough.
select (
    exists (select 1 from wakeful_run where app = :app and state in ('ready', 'waiting'))
    or exists (select 1 from wakeful_run where app = :app and state = 'running')
    or exists (select 1 from wakeful_run where app = :app and state = 'held')
    or exists (select 1 from wakeful_run where app = :app and state = 'parked')
    or exists (select 1 from wakeful_delivery where app = :app and state = 'pending')
    or exists (
      select 1 from wakeful_effect where app = :app and state in ('intent', 'retrying', 'unknown', 'held')
    )
  )

-- checkins(app, subject, most) --
-- The last check-ins of a name, newest first.
select accepted_at from wakeful_event
where app = :app and subject = :subject and type = 'wakeful.checkin' and state <> 'quarantined' order by seq desc limit :most

-- arrivals_of_type(app, type, most) --
select accepted_at from wakeful_event
where app = :app and type = :type and state <> 'quarantined' order by seq desc limit :most

-- arrivals_from(app, source, most) --
select accepted_at from wakeful_event
where app = :app and source = :source and state <> 'quarantined' order by seq desc limit :most

-- admissions_of_agent(app, agent, most, skip) --
-- The last events for an agent, newest first, with their admissions; `skip` leaves out the first so many.
select event.accepted_at, admission.state, admission.reason, run.seq, run.id, run.agent, run.state, run.created_at,
  run.started_at, run.finished_at, run.due_at, run.reason, run.parked_for
from wakeful_admission admission
join wakeful_event event on event.seq = admission.event_seq
left join wakeful_run run on run.id = admission.run_id
where admission.agent = :agent and event.app = :app and admission.state <> 'skipped'
order by admission.event_seq desc limit :most offset :skip

-- output_of_run(run_seq) --
-- The output, and whether the run sent anything.
select output, exists (select 1 from wakeful_delivery where run_seq = :run_seq) from wakeful_run where seq = :run_seq

-- pauses_of_app(app) --
select agent, operator from wakeful_pause where app = :app and paused = 1

-- processes_of_app(now, app, most) --
-- All living processes of an app, however old, and its last ones that ended; with the rest of their leases. `app || '/'` matches no
-- index: living processes are few, but those of an app may be many.
select id, agents, state, lease_until - {now}, started_at from wakeful_process where state = 'alive' and app || '/' = cast(:app as text) || '/'
union all
select id, agents, state, lease_until - {now}, started_at from (
  select id, agents, state, lease_until, started_at from wakeful_process where app = :app order by started_at desc limit :most
) as latest
where state <> 'alive'
