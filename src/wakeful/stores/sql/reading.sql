-- The read side: queries for people and the HTTP API. Nothing here writes or is on the hot path.

-- last_run() --
select max(seq) from wakeful_run

-- run_from(seq) --
-- The first run from a number on, and its creation time.
select seq, created_at from wakeful_run where seq >= :seq order by seq limit 1

-- find_runs(id, upper) --
-- By id or by a prefix of one: ids between `id` and `upper`.
select run.seq, run.id, run.agent, run.state, run.attempts, run.crashes, run.reason, run.created_at, run.started_at,
  run.finished_at, run.due_at, run.app, event.source as event_source, event.id as event_id, event.type as event_type,
  run.root, event.key as event_key, run.output, run.error, run.outcome, run.owner, run.token, run.expires_at, event.envelope, run.event_seq,
  run.cancel_at, run.cancel_by, run.cancel_note, run.version, run.data, run.parked_for
from wakeful_run run join wakeful_event event on event.seq = run.event_seq
where run.id >= :id and run.id < :upper
order by run.id
limit 2

-- list_steps(run_seq) --
select name, state, tries, attempt, arguments, result, error, started_at, finished_at, key
from wakeful_step where run_seq = :run_seq order by position, started_at

-- list_remedies(run_seq) --
select verb, operator, note, data, error, done_at from wakeful_remedy where run_seq = :run_seq order by seq

-- list_dead(agent) --
-- Newest first. Of the error only its type and the beginning of its message: there may be very many rows, each with a traceback. The
-- `+ 0` keeps the planner from walking all runs in order of seq: dead runs have an index of their own.
select run.id, run.agent, json_extract(run.error, '$.type'), substr(json_extract(run.error, '$.message'), 1, 1000),
  run.reason, run.finished_at
from wakeful_run run
where run.state = 'dead' and (cast(:agent as text) is null or run.agent = :agent)
order by run.seq + 0 desc

-- confirmed_of_dead(agent) --
-- Confirmed effects of dead letters: a replay finds them and does not repeat them. The caller counts them: with a `group by` here, the
-- planner would walk all runs in order of id.
select run.id, effect.action
from wakeful_run run join wakeful_effect effect on effect.root = run.root
where run.state = 'dead' and effect.state = 'confirmed' and effect.undoes is null
  and (cast(:agent as text) is null or run.agent = :agent)

-- list_events_to_feed(app, prefix, since, until, agent, after, most, whole) --
-- Stored events with a type prefix, oldest first, and the agent's admission of each; `whole`: with the envelopes.
select event.seq, event.app, event.source, event.id, event.type, admission.state, admission.run_id,
  case when cast(:whole as bigint) = 1 then event.envelope end
from wakeful_event event
left join wakeful_admission admission on admission.event_seq = event.seq and admission.agent = :agent
where event.seq > :after and event.accepted_at >= :since and event.accepted_at < :until
  and event.state <> 'quarantined' and event.envelope <> '' and substr(event.type, 1, length(cast(:prefix as text))) = :prefix
  and (cast(:app as text) is null or event.app = :app)
order by event.seq limit :most

-- known_agents() --
select distinct agent from wakeful_admission

-- list_effects(root) --
-- What a run did to the outside world; its replays and forks included.
select {effect}
from wakeful_effect effect join wakeful_run run on run.seq = effect.run_seq
where effect.root = :root order by effect.position, effect.seq

-- page_of_effects(after, most, state, agent, action) --
-- Newest first; `after` is the seq of the last one seen.
select effect.seq, {effect}
from wakeful_effect effect join wakeful_run run on run.seq = effect.run_seq
where (cast(:state as text) is null or effect.state = :state) and (cast(:after as bigint) is null or effect.seq < :after)
  and (cast(:agent as text) is null or effect.agent = :agent) and (cast(:action as text) is null or effect.action = :action)
order by effect.seq desc limit :most

-- find_effects(id, upper) --
-- By id, or by the beginning of one; with what its result must look like, where code reads it.
select {effect}, case when effect.undoes is null and effect.staged = 0 then action.returns end as returns
from wakeful_effect effect join wakeful_run run on run.seq = effect.run_seq
left join wakeful_action action on action.app = effect.app and action.reference = effect.reference
where effect.id >= :id and effect.id < :upper order by effect.id limit 6

-- find_effects_by_operation(id, upper) --
-- The same, by the operation id that the service was told, where a business key gave another one than the effect's own id.
select {effect}, case when effect.undoes is null and effect.staged = 0 then action.returns end as returns
from wakeful_effect effect join wakeful_run run on run.seq = effect.run_seq
left join wakeful_action action on action.app = effect.app and action.reference = effect.reference
where effect.operation >= :id and effect.operation < :upper order by effect.operation limit 6

-- list_deliveries(root) --
-- The deliveries of a run, including those of its replays and forks.
select delivery.id, delivery.channel, delivery.state, delivery.reason, delivery.message, delivery.subject, delivery.error,
  delivery.tries, case when delivery.state = 'pending' then delivery.due_at end as due_at,
  delivery.created_at as committed_at, delivery.settled_at, run.id as run, run.agent, delivery.urgent, delivery.thread,
  delivery.evidence, delivery.doubt_at
from wakeful_delivery delivery join wakeful_run run on run.seq = delivery.run_seq
where run.id = :root or (run.root = :root and run.id <> run.root)
order by delivery.seq

-- page_of_deliveries(after, most, channel, state) --
-- Newest first; `after` is the seq of the last one seen.
select delivery.seq, delivery.id, delivery.channel, delivery.state, delivery.reason, delivery.message, delivery.subject,
  delivery.error, delivery.tries, case when delivery.state = 'pending' then delivery.due_at end as due_at,
  delivery.created_at as committed_at, delivery.settled_at, run.id as run, run.agent, delivery.urgent, delivery.thread,
  delivery.evidence, delivery.doubt_at
from wakeful_delivery delivery join wakeful_run run on run.seq = delivery.run_seq
where (cast(:channel as text) is null or delivery.channel = :channel)
  and (cast(:state as text) is null or delivery.state = :state)
  and (cast(:after as bigint) is null or delivery.seq < :after)
order by delivery.seq desc limit :most

-- list_dead_deliveries(channel, agent) --
-- Newest first, with the same parts of the error and the same `+ 0` as list_dead.
select delivery.id, delivery.channel, run.agent, run.id, json_extract(delivery.error, '$.type'),
  substr(json_extract(delivery.error, '$.message'), 1, 1000), delivery.reason, delivery.settled_at
from wakeful_delivery delivery join wakeful_run run on run.seq = delivery.run_seq
where delivery.state = 'dead' and (cast(:channel as text) is null or delivery.channel = :channel)
  and (cast(:agent as text) is null or run.agent = :agent)
order by delivery.seq + 0 desc

-- count_dead_deliveries() --
select count(*) from wakeful_delivery where state = 'dead'

-- waiting_channels() --
-- Channels with waiting deliveries: how many, and since when the oldest.
select app, channel, count(*), min(created_at) from wakeful_delivery where state = 'pending'
group by app, channel order by app, channel

-- find_roots(id, upper) --
-- The first runs of families, by a prefix of their id.
select id, agent, state from wakeful_run where id >= :id and id < :upper and id = root order by id limit 6

-- runs_of_alarm(key) --
-- The runs that still need a person, the newest first.
select id from (
  select id, seq from wakeful_run where alarm = :key and state = 'dead'
  union all
  select id, seq from wakeful_run where alarm = :key and state = 'held'
) run order by seq desc limit 50

-- list_states(agent) --
-- With the run that holds it, if one does: the next run of the agent waits for that one.
select state.app, state.agent, state.key, state.value, state.version, state.changed_by, state.changed_at,
  (
    select operation.detail from wakeful_operation operation
    where operation.app = state.app and operation.target = state.agent and operation.operator = state.changed_by
      and operation.verb in ('state set', 'state clear')
    order by operation.seq desc limit 1
  ) as note,
  run.id as run
from wakeful_state state
left join wakeful_run run on run.seq = state.holder and run.state in ('ready', 'running', 'waiting')
where (cast(:agent as text) is null or state.agent = :agent) order by state.app, state.agent, state.key

-- state_of_held(run_seq) --
-- The state that a held output would save, and the version that is stored now.
select run.state_change, state.version
from wakeful_run run
join wakeful_state state on state.app = run.app and state.agent = run.agent and state.key = coalesce(run.key, '')
where run.seq = :run_seq and run.state_change is not null

-- app_by_run(id) --
select app from wakeful_run where id = :id

-- apps_of_agent(agent) --
select distinct app from wakeful_run where agent = :agent

-- list_attempts(run_seq) --
select token as claim, process, outcome, error, started_at, ended_at from wakeful_attempt where run_seq = :run_seq order by token

-- list_decisions(event_seq) --
select agent, answer, rule, version, reason, decided_at from wakeful_decision where event_seq = :event_seq order by seq

-- list_events(after, most, type, state, id) --
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
select agent, state, run_id as run, reason from wakeful_admission where event_seq = :event_seq order by agent

-- list_conflicts(event_seq) --
select content, envelope, seen_at from wakeful_conflict where event_seq = :event_seq order by seen_at

-- waiting_agents(app) --
select agent, count(*) from wakeful_run where app = :app and state in ('ready', 'waiting') group by agent order by agent

-- next_wake(app, now) --
-- When the next run or delivery that waits for its time is due.
select min(due_at) from (
  select due_at from wakeful_run where app = :app and state in ('ready', 'waiting') and due_at > {now}
  union all
  select due_at from wakeful_delivery where app = :app and state = 'pending' and due_at > {now}
) as waiting

-- count_runs() --
select state, count(*) from wakeful_run group by state

-- count_runs_of(app) --
select state, count(*) from wakeful_run where app = :app group by state

-- count_deliveries_of(app) --
select state, count(*) from wakeful_delivery where app = :app group by state

-- list_processes(now) --
select id, host, pid, state, started_at, lease_until, lease_until - {now} as lease_left from wakeful_process
order by case state when 'alive' then 0 else 1 end, started_at desc limit 50

-- read_time(now) --
select {now}
