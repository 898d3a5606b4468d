-- The read side: what people and the HTTP API ask for. Nothing here writes, and nothing here is on the hot path.

-- list_runs(agent, state, event, after, most) --
-- Newest first; `after` is the seq of the last one seen.
select run.seq, run.id, run.agent, run.state, run.attempts, run.crashes, run.reason, run.created_at, run.started_at,
  run.finished_at, run.due_at, run.app, event.source, event.id, event.type
from wakeful_run run join wakeful_event event on event.seq = run.event_seq
where (cast(:agent as text) is null or run.agent = :agent)
  and (cast(:state as text) is null or run.state = :state)
  and (cast(:event as text) is null or run.event_seq in (select seq from wakeful_event where id = :event or key = :event))
  and (cast(:after as bigint) is null or run.seq < :after)
order by run.seq desc
limit :most

-- find_runs(id, upper) --
-- By id, or by the beginning of one: ids between `id` and `upper`.
select run.seq, run.id, run.agent, run.state, run.attempts, run.crashes, run.reason, run.created_at, run.started_at,
  run.finished_at, run.due_at, run.app, event.source, event.id, event.type,
  run.root, event.key, run.output, run.error, run.outcome, run.owner, run.token, run.expires_at, event.envelope, run.event_seq
from wakeful_run run join wakeful_event event on event.seq = run.event_seq
where run.id >= :id and run.id < :upper
order by run.id
limit 2

-- list_steps(run_seq) --
select name, state, tries, attempt, arguments, result, error, started_at, finished_at, key
from wakeful_step where run_seq = :run_seq order by position, started_at

-- list_remedies(run_seq) --
select verb, operator, note, data, error, done_at from wakeful_remedy where run_seq = :run_seq order by seq

-- list_dead(agent, most) --
-- With how many effects of each are confirmed: a replay finds those and does not repeat them.
select run.id, run.agent, run.error, run.reason, run.finished_at,
  (select count(*) from wakeful_effect effect where effect.root = run.root and effect.state = 'confirmed')
from wakeful_run run
where run.state = 'dead' and (cast(:agent as text) is null or run.agent = :agent)
order by run.seq desc limit :most

-- list_effects(root) --
-- What a run did to the outside world; its replays and forks included.
select effect.id, effect.action, effect.safety, effect.state, effect.reason, effect.arguments, effect.result, effect.error,
  effect.tries, effect.attempt, effect.opened_at, effect.settled_at, effect.settled_by, effect.note, run.id, effect.agent
from wakeful_effect effect join wakeful_run run on run.seq = effect.run_seq
where effect.root = :root order by effect.position, effect.seq

-- page_of_effects(state, after, most) --
-- Newest first; `after` is the seq of the last one seen.
select effect.seq, effect.id, effect.action, effect.safety, effect.state, effect.reason, effect.arguments, effect.result, effect.error,
  effect.tries, effect.attempt, effect.opened_at, effect.settled_at, effect.settled_by, effect.note, run.id, effect.agent
from wakeful_effect effect join wakeful_run run on run.seq = effect.run_seq
where (cast(:state as text) is null or effect.state = :state) and (cast(:after as bigint) is null or effect.seq < :after)
order by effect.seq desc limit :most

-- find_effects(id, upper) --
-- By id, or by the beginning of one.
select effect.id, effect.action, effect.safety, effect.state, effect.reason, effect.arguments, effect.result, effect.error,
  effect.tries, effect.attempt, effect.opened_at, effect.settled_at, effect.settled_by, effect.note, run.id, effect.agent
from wakeful_effect effect join wakeful_run run on run.seq = effect.run_seq
where effect.id >= :id and effect.id < :upper order by effect.id limit 2

-- list_attempts(run_seq) --
select token, process, outcome, error, started_at, ended_at from wakeful_attempt where run_seq = :run_seq order by token

-- list_decisions(event_seq) --
select agent, answer, rule, version, reason, decided_at from wakeful_decision where event_seq = :event_seq order by seq

-- list_events(type, state, id, after, most) --
select seq, key, app, source, id, type, subject, state, reason, duplicates, accepted_at
from wakeful_event
where (cast(:type as text) is null or type = :type)
  and (cast(:state as text) is null or state = :state)
  and (cast(:id as text) is null or id = :id)
  and (cast(:after as bigint) is null or seq < :after)
order by seq desc
limit :most

-- find_events(identifier) --
select seq, key, app, source, id, type, subject, state, reason, duplicates, accepted_at, envelope
from wakeful_event where key = :identifier or id = :identifier order by seq desc limit 10

-- list_admissions(event_seq) --
select agent, state, run_id, reason from wakeful_admission where event_seq = :event_seq order by agent

-- list_conflicts(event_seq) --
select content, envelope, seen_at from wakeful_conflict where event_seq = :event_seq order by seen_at

-- list_alarms(state, most) --
select key, app, state, text, count, opened_at, last_at from wakeful_alarm
where (cast(:state as text) is null or state = :state) order by last_at desc limit :most

-- waiting_agents(app) --
select agent, count(*) from wakeful_run where app = :app and state in ('ready', 'waiting') group by agent order by agent

-- next_wake(app, now) --
-- When the next run that waits for time is due.
select min(due_at) from wakeful_run where app = :app and state in ('ready', 'waiting') and due_at > {now}

-- count_runs() --
select state, count(*) from wakeful_run group by state

-- list_processes(now) --
select id, host, pid, state, started_at, lease_until, lease_until - {now} from wakeful_process
order by case state when 'alive' then 0 else 1 end, started_at desc limit 50

-- read_time(now) --
select {now}
