-- Queries that must differ on PostgreSQL, each with the reason.

-- claim_runs(now, app, agent, most, process, version) --
-- differs: `= any(array(…))` makes the planner use the primary key. With `in (select …)` and a limit that it does not know, a generic
-- plan may read the whole table. `skip locked` lets concurrent claims skip each other's rows.
update wakeful_run
set state = 'running', reason = null, owner = :process, token = token + 1,
    started_at = coalesce(started_at, {now}), claimed_at = {now}, version = coalesce(version, :version)
where seq = any(array(
  select seq from wakeful_run
  where app = :app and agent = :agent and state in ('ready', 'waiting') and due_at <= {now} and crashes < 2 {apart}
  order by due_at
  limit :most
  {skip_locked}
))
returning {claimed}

-- claim_solo(now, app, agent, process, version) --
-- differs: as claim_runs. `state || ''` keeps the planner from the index of all due runs, where these are the last entries.
update wakeful_run
set state = 'running', reason = null, owner = :process, token = token + 1,
    started_at = coalesce(started_at, {now}), claimed_at = {now}, version = coalesce(version, :version)
where seq = any(array(
  select seq from wakeful_run
  where app = :app and agent = :agent and state || '' in ('ready', 'waiting') and due_at <= {now} and crashes >= 2 {apart}
  order by due_at, seq
  limit 1
  {skip_locked}
))
returning {claimed}

-- save_step(run_seq, token, key, name, state, position, tries, attempt, arguments, result, error, started_at, finished_at) bulk --
-- differs: all rows in one statement, because each separate one costs the server 20 µs or more before it does anything. Only a running
-- run has an owner: comparing the owner instead of the state keeps the planner from joining through the index of all running runs.
-- `= any(array[…])` keeps it from a walk along the primary key, which looks cheap to a plan that was made while there was one run and
-- is kept when there are many. What remains is a lookup of each row by its seq.
insert into wakeful_step
  (run_seq, key, name, state, position, tries, attempt, arguments, result, error, started_at, finished_at)
select given.run_seq, given.key, given.name, given.state, given.position, given.tries, given.attempt, given.arguments,
  given.result, given.error, given.started_at, given.finished_at
from unnest(
  cast(:run_seq as bigint[]), cast(:token as bigint[]), cast(:key as text[]), cast(:name as text[]),
  cast(:state as text[]), cast(:position as bigint[]), cast(:tries as bigint[]), cast(:attempt as bigint[]),
  cast(:arguments as text[]), cast(:result as text[]), cast(:error as text[]), cast(:started_at as bigint[]),
  cast(:finished_at as bigint[])
) as given (run_seq, token, key, name, state, position, tries, attempt, arguments, result, error, started_at, finished_at)
join wakeful_run run on run.seq = any(array[given.run_seq]) and run.token = given.token and run.owner is not null
on conflict (run_seq, key) do update
set state = excluded.state, tries = excluded.tries, attempt = excluded.attempt, result = excluded.result,
    error = excluded.error, finished_at = excluded.finished_at

-- save_step_fenced(now, process, run_seq, token, key, name, state, position, tries, attempt, arguments, result, error, started_at, finished_at) bulk --
-- differs: exists only here. The fence and save_step in one statement, which is a transaction of its own.
with fence as materialized (
  select from wakeful_process where id = any(cast(:process as text[])) and state = 'alive' and lease_until > {now} for key share
)
insert into wakeful_step
  (run_seq, key, name, state, position, tries, attempt, arguments, result, error, started_at, finished_at)
select given.run_seq, given.key, given.name, given.state, given.position, given.tries, given.attempt, given.arguments,
  given.result, given.error, given.started_at, given.finished_at
from unnest(
  cast(:run_seq as bigint[]), cast(:token as bigint[]), cast(:key as text[]), cast(:name as text[]),
  cast(:state as text[]), cast(:position as bigint[]), cast(:tries as bigint[]), cast(:attempt as bigint[]),
  cast(:arguments as text[]), cast(:result as text[]), cast(:error as text[]), cast(:started_at as bigint[]),
  cast(:finished_at as bigint[])
) as given (run_seq, token, key, name, state, position, tries, attempt, arguments, result, error, started_at, finished_at)
join wakeful_run run on run.seq = any(array[given.run_seq]) and run.token = given.token and run.owner is not null
where (select count(*) from fence) = 1
on conflict (run_seq, key) do update
set state = excluded.state, tries = excluded.tries, attempt = excluded.attempt, result = excluded.result,
    error = excluded.error, finished_at = excluded.finished_at

-- finish_well_fenced(now, process, seq, token, output, outcome) bulk --
-- differs: exists only here. The fence and finish_well in one statement, which is a transaction of its own.
with fence as materialized (
  select from wakeful_process where id = any(cast(:process as text[])) and state = 'alive' and lease_until > {now} for key share
)
update wakeful_run run
set state = 'done', reason = null, owner = null, due_at = null, place = null, output = given.output, error = null,
    outcome = given.outcome, finished_at = {now}
from unnest(
  cast(:seq as bigint[]), cast(:token as bigint[]), cast(:output as text[]), cast(:outcome as text[])
) as given (seq, token, output, outcome)
where run.seq = any(array[given.seq]) and run.token = given.token and run.owner is not null and run.cancel_at is null
  and (select count(*) from fence) = 1

-- insert_event(now, key, app, source, id, type, subject, state, reason, content, envelope) bulk --
-- differs: as save_step. The rows are sorted by key, so that two processes cannot deadlock.
insert into wakeful_event (key, app, source, id, type, subject, state, reason, content, envelope, accepted_at)
select given.*, {now}
from unnest(
  cast(:key as text[]), cast(:app as text[]), cast(:source as text[]), cast(:id as text[]), cast(:type as text[]),
  cast(:subject as text[]), cast(:state as text[]), cast(:reason as text[]), cast(:content as text[]),
  cast(:envelope as text[])
) as given
on conflict (key) do nothing
returning key, seq

-- insert_trace(trace, event_seq) bulk --
-- differs: as insert_event.
insert into wakeful_trace (trace, event_seq)
select given.* from unnest(cast(:trace as text[]), cast(:event_seq as bigint[])) as given
on conflict (trace, event_seq) do nothing

-- accept_new(now, count, payload, key, app, source, id, type, subject, state, reason, content, envelope, place, agent, admission, run_id, why, run_place, run, root, run_app, run_agent, expires_at) --
-- differs: exists only here. Events, admissions, runs and the notification of other processes in one statement, if every event is new
-- and no run waits for one of them; otherwise it divides by zero, and nothing is stored.
with given as materialized (
  select * from unnest(
    cast(cast(:key as text) as text[]), cast(cast(:app as text) as text[]), cast(cast(:source as text) as text[]),
    cast(cast(:id as text) as text[]), cast(cast(:type as text) as text[]), cast(cast(:subject as text) as text[]),
    cast(cast(:state as text) as text[]), cast(cast(:reason as text) as text[]), cast(cast(:content as text) as text[]),
    cast(cast(:envelope as text) as text[])
  ) with ordinality as input (key, app, source, id, type, subject, state, reason, content, envelope, place)
),
event as (
  insert into wakeful_event (key, app, source, id, type, subject, state, reason, content, envelope, accepted_at)
  select key, app, source, id, type, subject, state, reason, content, envelope, {now} from given order by place
  on conflict (key) do nothing
  returning key, seq
),
placed as materialized (select event.seq, given.place from event join given on given.key = event.key),
admitted as (
  insert into wakeful_admission (event_seq, agent, state, run_id, reason)
  select placed.seq, input.agent, input.state, input.run_id, input.reason
  from unnest(
    cast(cast(:place as text) as bigint[]), cast(cast(:agent as text) as text[]),
    cast(cast(:admission as text) as text[]), cast(cast(:run_id as text) as text[]), cast(cast(:why as text) as text[])
  ) as input (place, agent, state, run_id, reason)
  join placed on placed.place = input.place
  on conflict (event_seq, agent) do nothing
),
started as (
  insert into wakeful_run (id, root, app, agent, event_seq, expires_at, state, due_at, created_at)
  select input.id, input.root, input.app, input.agent, placed.seq, input.expires_at, 'ready', {now}, {now}
  from unnest(
    cast(cast(:run_place as text) as bigint[]), cast(cast(:run as text) as text[]), cast(cast(:root as text) as text[]),
    cast(cast(:run_app as text) as text[]), cast(cast(:run_agent as text) as text[]),
    cast(cast(:expires_at as text) as bigint[])
  ) as input (place, id, root, app, agent, expires_at)
  join placed on placed.place = input.place
  on conflict (id) do nothing
),
told as materialized (
  select pg_notify('wakeful', cast(:payload as text)) where cast(:payload as text) is not null
)
select (select count(*) from told), 1 / cast((select count(*) from event) = cast(:count as bigint)
  and not exists (
    select 1 from given
    join wakeful_wait waiting on waiting.app = given.app and waiting.type = given.type
      and waiting.subject = any(array['', coalesce(given.subject, '')]) and waiting.event_seq is null
  ) as integer)

-- insert_admission(event_seq, agent, state, run_id, reason) bulk --
-- differs: as save_step.
insert into wakeful_admission (event_seq, agent, state, run_id, reason)
select given.*
from unnest(
  cast(:event_seq as bigint[]), cast(:agent as text[]), cast(:state as text[]), cast(:run_id as text[]),
  cast(:reason as text[])
) as given
on conflict (event_seq, agent) do nothing

-- insert_run(now, id, root, app, agent, event_seq, expires_at) bulk --
-- differs: as save_step.
insert into wakeful_run (id, root, app, agent, event_seq, expires_at, state, due_at, created_at)
select given.*, 'ready', {now}, {now}
from unnest(
  cast(:id as text[]), cast(:root as text[]), cast(:app as text[]), cast(:agent as text[]),
  cast(:event_seq as bigint[]), cast(:expires_at as bigint[])
) as given
on conflict (id) do nothing

-- finish_well(now, seq, token, output, outcome) bulk --
-- differs: as save_step.
update wakeful_run run
set state = 'done', reason = null, owner = null, due_at = null, place = null, output = given.output, error = null,
    outcome = given.outcome, finished_at = {now}
from unnest(
  cast(:seq as bigint[]), cast(:token as bigint[]), cast(:output as text[]), cast(:outcome as text[])
) as given (seq, token, output, outcome)
where run.seq = any(array[given.seq]) and run.token = given.token and run.owner is not null and run.cancel_at is null

-- finish_run(now, seq, token, state, reason, output, error, outcome, failed, stopping) bulk --
-- differs: as save_step.
update wakeful_run run
set state = given.state, reason = given.reason, owner = null, due_at = null, output = coalesce(given.output, run.output),
    error = given.error, outcome = given.outcome, attempts = attempts + given.failed, finished_at = {now}
from unnest(
  cast(:seq as bigint[]), cast(:token as bigint[]), cast(:state as text[]), cast(:reason as text[]),
  cast(:output as text[]), cast(:error as text[]), cast(:outcome as text[]), cast(:failed as bigint[]),
  cast(:stopping as bigint[])
) as given (seq, token, state, reason, output, error, outcome, failed, stopping)
where run.seq = any(array[given.seq]) and run.token = given.token and run.owner is not null
  and (run.cancel_at is null or given.stopping = 1)
returning run.seq

-- list_dead(agent) --
-- differs: other JSON functions.
select run.id, run.agent, cast(run.error as json) ->> 'type', substr(cast(run.error as json) ->> 'message', 1, 1000),
  run.reason, run.finished_at
from wakeful_run run
where run.state = 'dead' and (cast(:agent as text) is null or run.agent = :agent)
order by run.seq + 0 desc

-- list_dead_deliveries(channel, agent) --
-- differs: other JSON functions.
select delivery.id, delivery.channel, run.agent, run.id, cast(delivery.error as json) ->> 'type',
  substr(cast(delivery.error as json) ->> 'message', 1, 1000), delivery.reason, delivery.settled_at
from wakeful_delivery delivery join wakeful_run run on run.seq = delivery.run_seq
where delivery.state = 'dead' and (cast(:channel as text) is null or delivery.channel = :channel)
  and (cast(:agent as text) is null or run.agent = :agent)
order by delivery.seq + 0 desc

-- find_run_to_redo(id) bulk --
-- differs: as save_step. Always in the same order, so that two people who replay the same runs cannot deadlock.
select seq, id, root, state, error, app, agent, reason,
  (outcome is not null and committed_at is null)
    or not exists (select 1 from wakeful_effect effect where effect.root = wakeful_run.root and effect.state || '' = 'held'),
  key, gathered, failed_with is not null and cancel_at is null, committed_at is not null
from wakeful_run where id = any(cast(:id as text[])) order by seq for update

-- replay_run(now, seq, reason, data) bulk --
-- differs: as save_step.
update wakeful_run run
set state = 'ready', reason = given.reason, due_at = {now}, token = token + 1, attempts = 0, crashes = 0,
    started_at = null, finished_at = null, error = null, data = coalesce(given.data, run.data), state_change = null,
    version = '~' || ltrim(run.version, '~'),
    failed_with = case when run.cancel_at is null then null else run.failed_with end,
    cancel_at = case when run.state = 'cancelled' then null else run.cancel_at end,
    cancel_by = case when run.state = 'cancelled' then null else run.cancel_by end,
    cancel_note = case when run.state = 'cancelled' then null else run.cancel_note end,
    output = case when run.committed_at is null or given.data is not null then null else run.output end,
    outcome = case when run.committed_at is null or given.data is not null then null else run.outcome end,
    committed_at = case when given.data is not null then null else run.committed_at end
from unnest(cast(:seq as bigint[]), cast(:reason as text[]), cast(:data as text[])) as given (seq, reason, data)
where run.seq = any(array[given.seq])

-- discard_run(now, seq, reason) bulk --
-- differs: as save_step.
update wakeful_run run set state = 'cancelled', reason = given.reason, finished_at = {now}
from unnest(cast(:seq as bigint[]), cast(:reason as text[])) as given (seq, reason)
where run.seq = any(array[given.seq])

-- clear_failed_steps(run_seq) bulk --
-- differs: as save_step.
delete from wakeful_step where run_seq = any(cast(:run_seq as bigint[])) and state = 'failed'
returning run_seq, name, error

-- clear_failed_effects(root) bulk --
-- differs: as save_step.
update wakeful_effect set state = 'retrying', tries = 0, reason = 'replayed'
where root = any(cast(:root as text[])) and state = 'failed'
returning root, action, error

-- insert_remedy(now, run_seq, verb, operator, note, data, error) bulk --
-- differs: as save_step.
insert into wakeful_remedy (run_seq, verb, operator, note, data, error, done_at)
select given.*, {now}
from unnest(
  cast(:run_seq as bigint[]), cast(:verb as text[]), cast(:operator as text[]), cast(:note as text[]),
  cast(:data as text[]), cast(:error as text[])
) as given

-- start_admission(event_seq, agent, run_id, reason) bulk --
-- differs: as save_step.
insert into wakeful_admission (event_seq, agent, state, run_id, reason)
select given.event_seq, given.agent, 'started', given.run_id, given.reason
from unnest(
  cast(:event_seq as bigint[]), cast(:agent as text[]), cast(:run_id as text[]), cast(:reason as text[])
) as given (event_seq, agent, run_id, reason)
on conflict (event_seq, agent) do update
set state = excluded.state, run_id = excluded.run_id, reason = excluded.reason
where wakeful_admission.state in ('skipped', 'expired') and wakeful_admission.run_id is null
returning event_seq

-- accept_unmatched(seq) bulk --
-- differs: as save_step.
update wakeful_event set state = 'accepted', reason = null
where seq = any(cast(:seq as bigint[])) and state = 'unmatched'

-- bury_process(id) --
-- differs: takes the lock that a fenced write of that process would hold. A process in the middle of a transaction is skipped, because
-- its session may hang for a while before the server ends it: the reaper soon looks again.
update wakeful_process set state = 'dead', guard = null
where id = (
  select id from wakeful_process
  where id = :id and (state = 'alive' or (state = 'dead' and guard is not null)) for update skip locked
)
returning id

-- bury_expired(now, id) --
-- differs: as bury_process.
update wakeful_process set state = 'dead', guard = null
where id = (
  select id from wakeful_process
  where id = :id and (state = 'alive' or (state = 'dead' and guard is not null)) and lease_until <= {now}
  for update skip locked
)
returning id

-- end_sessions(name) --
-- differs: exists only here. Ends the open sessions of a process, in this database and under our own account.
select pg_terminate_backend(pid) from pg_stat_activity
where application_name = :name and datname = current_database() and usename = current_user and pid <> pg_backend_pid()

-- end_session(pid, name) --
-- differs: exists only here. Ends one session of ours whose answer was lost, and waits up to 5 s for its end.
select pg_terminate_backend(pid, 5000) from pg_stat_activity
where pid = :pid and application_name = :name and usename = current_user and pid <> pg_backend_pid()

-- retire_process(id) --
-- differs: waits for transactions of this process that are still in flight.
update wakeful_process set state = 'stopped'
where id = (select id from wakeful_process where id = :id and state = 'alive' for update)

-- notify(payload) --
-- differs: exists only here. Once for each transaction that made runs ready and did not claim them itself.
select pg_notify('wakeful', :payload)

-- save_step_once(run_seq, token, key, name, state, position, tries, attempt, arguments, result, error, started_at, finished_at) --
-- differs: exists only here. As save_step, for a user's own transaction: a finished step stays as it is and no row comes back, so that
-- the user's rows are not stored a second time after a COMMIT whose answer was lost.
insert into wakeful_step
  (run_seq, key, name, state, position, tries, attempt, arguments, result, error, started_at, finished_at)
select seq, :key, :name, :state, :position, :tries, :attempt, :arguments, :result, :error, :started_at, :finished_at
from wakeful_run where seq = :run_seq and token = :token and state = 'running'
on conflict (run_seq, key) do update
set state = excluded.state, tries = excluded.tries, attempt = excluded.attempt, result = excluded.result,
    error = excluded.error, finished_at = excluded.finished_at
where wakeful_step.state <> 'done'
returning run_seq, key

-- insert_effect(now, id, root, run_seq, token, app, agent, action, reference, safety, state, reason, arguments, tries, attempt, position, undoes, rule, policy) bulk --
-- differs: as save_step.
insert into wakeful_effect
  (id, root, run_seq, app, agent, action, reference, safety, state, reason, arguments, tries, attempt, position, opened_at,
  undoes, rule, policy)
select given.id, given.root, given.run_seq, given.app, given.agent, given.action, given.reference, given.safety, given.state,
  given.reason, given.arguments, given.tries, given.attempt, given.position, {now}, given.undoes,
  given.rule, given.policy
from unnest(
  cast(:id as text[]), cast(:root as text[]), cast(:run_seq as bigint[]), cast(:token as bigint[]), cast(:app as text[]),
  cast(:agent as text[]), cast(:action as text[]), cast(:reference as text[]), cast(:safety as text[]),
  cast(:state as text[]), cast(:reason as text[]), cast(:arguments as text[]), cast(:tries as bigint[]),
  cast(:attempt as bigint[]), cast(:position as bigint[]), cast(:undoes as text[]), cast(:rule as text[]),
  cast(:policy as text[])
) as given (id, root, run_seq, token, app, agent, action, reference, safety, state, reason, arguments, tries, attempt, position,
  undoes, rule, policy)
join wakeful_run run on run.seq = any(array[given.run_seq]) and run.token = given.token and run.owner is not null
  and (run.cancel_at is null or given.undoes is not null)
on conflict (id) do nothing
returning id, opened_at

-- save_effect(now, id, run_seq, token, state, reason, result, error, tries, attempt, due_at, doubtful, rule, policy) bulk --
-- differs: as save_delivery.
update wakeful_effect effect
set state = given.state, reason = given.reason, result = given.result, error = given.error, tries = given.tries,
    attempt = given.attempt, run_seq = given.run_seq, due_at = given.due_at, doubtful = given.doubtful,
    rule = given.rule, policy = given.policy,
    called_at = case when given.state = 'intent' then {now} else effect.called_at end,
    settled_at = case when given.state in ('confirmed', 'failed') then {now} end
from unnest(
  cast(:id as text[]), cast(:run_seq as bigint[]), cast(:token as bigint[]), cast(:state as text[]), cast(:reason as text[]),
  cast(:result as text[]), cast(:error as text[]), cast(:tries as bigint[]), cast(:attempt as bigint[]),
  cast(:due_at as bigint[]), cast(:doubtful as bigint[]), cast(:rule as text[]), cast(:policy as text[])
) as given (id, run_seq, token, state, reason, result, error, tries, attempt, due_at, doubtful, rule, policy)
where effect.id = any(array[given.id])
  and (effect.state not in ('confirmed', 'abandoned', 'undone')
    or (effect.state = 'confirmed' and effect.settled_by is not null and given.state = 'held'))
  and exists (
    select 1 from wakeful_run run
    where run.seq = any(array[given.run_seq]) and run.token = given.token and run.owner is not null
  )
returning effect.id

-- release_held_runs(now, root) --
-- differs: as load_sent.
update wakeful_run
set state = 'ready', reason = 'a person settled what it was held for', due_at = {now},
    started_at = started_at + ({now} - coalesce(due_at, {now}))
where seq = any(array(
    select seq from wakeful_run where id = :root
    union all
    select seq from wakeful_run where root = :root and id <> root
  ))
  and state || '' = 'held' and (outcome is null or committed_at is not null)
  and not exists (select 1 from wakeful_effect effect where effect.root = :root and effect.state || '' = 'held')
returning app, agent, id, seq

-- settle_effect(now, id, state, result, operator, note, settlement) --
-- differs: as save_delivery.
update wakeful_effect
set state = :state, result = coalesce(:result, result), settled_by = :operator, note = :note, settlement = :settlement,
    settled_at = {now}, due_at = null, doubtful = case when cast(:state as text) = 'retrying' then 0 else doubtful end,
    error = case when cast(:state as text) = 'retrying' then null else error end
where id = :id
  and (state || '' = 'held' or (state || '' in ('intent', 'unknown') and exists (
    select 1 from wakeful_run run
    where run.seq = wakeful_effect.run_seq and run.state || '' in ('dead', 'denied', 'cancelled'))))
returning root, undoes

-- family_at_work(root, seq) --
-- differs: `state || ''` keeps the planner from an index of all runs in these states.
select cast(:seq as bigint), id from wakeful_run
where root = :root and id <> root and seq <> :seq and state || '' in ('ready', 'running', 'waiting', 'held', 'parked')
union all
select cast(:seq as bigint), id from wakeful_run
where id = :root and seq <> :seq and state || '' in ('ready', 'running', 'waiting', 'held', 'parked')

-- list_deliveries(root) --
-- differs: as load_sent. With an `or` instead, every delivery would be read.
select delivery.id, delivery.channel, delivery.state, delivery.reason, delivery.message, delivery.subject, delivery.error,
  delivery.tries, case when delivery.state = 'pending' then delivery.due_at end as due_at,
  delivery.created_at as committed_at, delivery.settled_at, run.id as run, run.agent, delivery.urgent, delivery.thread,
  delivery.evidence, delivery.doubt_at
from wakeful_delivery delivery join wakeful_run run on run.seq = delivery.run_seq
where delivery.run_seq = any(array(
    select seq from wakeful_run where id = :root
    union all
    select seq from wakeful_run where root = :root and id <> root
  ))
order by delivery.seq
