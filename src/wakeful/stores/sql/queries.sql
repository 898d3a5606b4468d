-- The named queries, the same on SQLite and PostgreSQL but for a few slots:
--   {now}            the time: `:now` on SQLite; on PostgreSQL the database's clock unless a test hands in another
--   {for_key_share}  PostgreSQL: lock what a fenced write checks until its commit. Many may hold it at once, and the
--                    renewal of the lease neither waits for them nor they for it. SQLite has one writer: nothing to lock
--   {for_update}     PostgreSQL: the same lock for one alone, which waits until nobody else holds it
--   {apart}          what a claim leaves to other code, see queries.py
--   {claimed}        what a claim tells of a run, see queries.py
--   {skip_locked}    PostgreSQL: claimants pass over each other's candidates. SQLite has one writer: nobody to pass over
-- A heading names the query and its parameters, in the order in which they are handed over. What must differ in more
-- than a slot stands in postgres*.sql, which overrule the other files by name.

-- fence(now, process) --
-- Is this process alive, and is its lease good? The lock keeps anybody from taking its runs before this transaction ends.
select id, lease_until > {now} from wakeful_process where id = :process and state = 'alive' {for_key_share}

-- fence_alone(now, process) --
-- As fence, and waits for every other transaction of this process: one whose connection was lost may still commit.
select id, lease_until > {now} from wakeful_process where id = :process and state = 'alive' {for_update}

-- insert_event(now, key, app, source, id, type, subject, state, reason, content, envelope) --
-- No row comes back when the identity is known already.
insert into wakeful_event (key, app, source, id, type, subject, state, reason, content, envelope, accepted_at)
values (:key, :app, :source, :id, :type, :subject, :state, :reason, :content, :envelope, {now})
on conflict (key) do nothing
returning key, seq

-- insert_trace(trace, event_seq) --
insert into wakeful_trace (trace, event_seq) values (:trace, :event_seq) on conflict (trace, event_seq) do nothing

-- insert_admission(event_seq, agent, state, run_id, reason) --
insert into wakeful_admission (event_seq, agent, state, run_id, reason)
values (:event_seq, :agent, :state, :run_id, :reason)
on conflict (event_seq, agent) do nothing

-- insert_run(now, id, root, app, agent, event_seq, expires_at) --
insert into wakeful_run (id, root, app, agent, event_seq, state, due_at, expires_at, created_at)
values (:id, :root, :app, :agent, :event_seq, 'ready', {now}, :expires_at, {now})
on conflict (id) do nothing

-- insert_decision(now, event_seq, run_seq, agent, answer, rule, version, reason) --
insert into wakeful_decision (event_seq, run_seq, agent, answer, rule, version, reason, decided_at)
values (:event_seq, :run_seq, :agent, :answer, :rule, :version, :reason, {now})

-- insert_run_decision(now, run_seq, agent, answer, rule, version, reason) --
-- A decision about a run that has started.
insert into wakeful_decision (event_seq, run_seq, agent, answer, rule, version, reason, decided_at)
select event_seq, seq, :agent, :answer, :rule, :version, :reason, {now} from wakeful_run where seq = :run_seq

-- count_duplicate(key) --
-- One more delivery of a known event; tells what the first one said.
update wakeful_event set duplicates = duplicates + 1 where key = :key returning key, seq, content

-- envelope_of_event(seq) --
select seq, envelope from wakeful_event where seq = :seq

-- insert_conflict(now, event_seq, content, envelope) --
insert into wakeful_conflict (event_seq, content, envelope, seen_at)
values (:event_seq, :content, :envelope, {now})
on conflict (event_seq, content) do nothing

-- runs_of_event(event_seq) --
select event_seq, run_id from wakeful_admission where event_seq = :event_seq and run_id is not null order by agent

-- find_idempotency(app, key) --
select request, response from wakeful_idempotency where app = :app and key = :key

-- insert_idempotency(now, app, key, request) --
-- Take a key. No row comes back when it is taken; PostgreSQL waits for whoever is just taking it.
insert into wakeful_idempotency (app, key, request, response, created_at)
values (:app, :key, :request, '[]', {now})
on conflict (app, key) do nothing
returning key

-- answer_idempotency(app, key, response) --
-- What the request that took the key is answered.
update wakeful_idempotency set response = :response where app = :app and key = :key

-- claim_runs(now, app, agent, most, process, version) --
-- The oldest due runs of one agent, now owned by this process under a new token.
with candidate as materialized (
  select seq from wakeful_run
  where app = :app and agent = :agent and state in ('ready', 'waiting') and due_at <= {now} and crashes < 2 {apart}
  order by due_at
  limit :most
)
update wakeful_run
set state = 'running', reason = null, owner = :process, token = token + 1,
    started_at = coalesce(started_at, {now}), claimed_at = {now}, version = coalesce(version, :version)
where seq in (select seq from candidate)
returning {claimed}

-- claim_solo(now, app, agent, process, version) --
-- One run that was in flight in two or more processes that died: its worker runs nothing else beside it. The `+` keeps
-- SQLite from the index of all due runs: these came last into it.
with candidate as materialized (
  select seq from wakeful_run
  where app = :app and +agent = :agent and state in ('ready', 'waiting') and due_at <= {now} and crashes >= 2 {apart}
  order by due_at, seq
  limit 1
)
update wakeful_run
set state = 'running', reason = null, owner = :process, token = token + 1,
    started_at = coalesce(started_at, {now}), claimed_at = {now}, version = coalesce(version, :version)
where seq in (select seq from candidate)
returning {claimed}

-- claim_one(now, seq, process, version) --
-- The run that has the state of its agent, once it is due again.
update wakeful_run
set state = 'running', reason = null, owner = :process, token = token + 1,
    started_at = coalesce(started_at, {now}), claimed_at = {now}, version = coalesce(version, :version)
where seq = :seq and state in ('ready', 'waiting') and due_at <= {now} and crashes < 2 {apart}
returning {claimed}

-- next_due(now, app, agent) --
-- How long until the next run of this agent is due; null when none is.
select min(due_at) - {now} from wakeful_run
where app = :app and agent = :agent and state in ('ready', 'waiting') and due_at > {now}

-- load_steps(run_seq) --
select run_seq, key, name, state, result, error, arguments, tries, attempt, position, started_at, finished_at
from wakeful_step where run_seq = :run_seq order by position

-- save_step(run_seq, token, key, name, state, position, tries, attempt, arguments, result, error, started_at, finished_at) --
-- Fenced by the run's token. Saving the same step again is the same write: after a lost COMMIT it is simply repeated.
insert into wakeful_step
  (run_seq, key, name, state, position, tries, attempt, arguments, result, error, started_at, finished_at)
select seq, :key, :name, :state, :position, :tries, :attempt, :arguments, :result, :error, :started_at, :finished_at
from wakeful_run where seq = :run_seq and token = :token and state = 'running'
on conflict (run_seq, key) do update
set state = excluded.state, tries = excluded.tries, attempt = excluded.attempt, result = excluded.result,
    error = excluded.error, finished_at = excluded.finished_at

-- clear_step(run_seq, token, key) --
-- A failed step whose error left the handler is tried again by the run's retry.
delete from wakeful_step where run_seq = :run_seq and key = :key and state in ('failed', 'fact')
and exists (select 1 from wakeful_run where seq = :run_seq and token = :token and state = 'running')

-- finish_well(now, seq, token, output, outcome) --
-- As finish_run, for a run that is done: it has no error and no reason. One that is to stop is not: whoever asked was first.
update wakeful_run
set state = 'done', reason = null, owner = null, due_at = null, place = null, output = :output, error = null, outcome = :outcome,
    finished_at = {now}
where seq = :seq and token = :token and state = 'running' and cancel_at is null

-- finish_run(now, seq, token, state, reason, output, error, outcome, failed, stopping) --
-- `stopping`: its owner knows that it is to stop.
update wakeful_run
set state = :state, reason = :reason, owner = null, due_at = null, output = coalesce(:output, output), error = :error,
    outcome = :outcome, attempts = attempts + :failed, finished_at = {now}
where seq = :seq and token = :token and state = 'running' and (cancel_at is null or :stopping = 1)
returning seq

-- commit_run(now, seq, token, output, outcome) --
-- What it returned is out. It stays running, to release what it staged.
update wakeful_run set output = :output, outcome = :outcome, committed_at = {now}
where seq = :seq and token = :token and state = 'running' and cancel_at is null
returning seq

-- hold_output(seq, token, output, outcome, reason, state_change) --
update wakeful_run
set state = 'held', reason = :reason, owner = null, due_at = null, output = :output, outcome = :outcome,
    state_change = :state_change
where seq = :seq and token = :token and state = 'running' and cancel_at is null
returning seq

-- close_run(now, seq, token, outcome) --
update wakeful_run
set state = 'done', reason = null, owner = null, due_at = null, place = null, error = null, outcome = :outcome, finished_at = {now}
where seq = :seq and token = :token and state = 'running' and cancel_at is null
returning seq

-- find_held_output(id) --
select seq, id, app, agent, state, outcome, committed_at, state_change, reason,
  exists (select 1 from wakeful_effect effect where effect.root = wakeful_run.root and effect.state || '' = 'held')
from wakeful_run where id = :id {for_update}

-- release_output(now, seq, reason, outcome) --
-- As if it had passed: the run is claimed again to release what it staged.
update wakeful_run
set state = 'ready', reason = :reason, due_at = {now}, committed_at = {now}, outcome = :outcome, state_change = null
where seq = :seq and state = 'held'

-- insert_delivery(now, id, run_seq, token, app, channel, state, message, subject, position) --
-- Stored by the commit of the run that sent it, once: fenced by the run's token, and a committed run has stored its own.
insert into wakeful_delivery (id, run_seq, app, channel, state, message, subject, position, due_at, created_at)
select :id, seq, :app, :channel, :state, :message, :subject, :position, {now}, {now}
from wakeful_run where seq = :run_seq and token = :token and state = 'running' and committed_at is null

-- replace_dropped(id, run_seq, token) --
-- A message that a replay dropped with its held output, and that the handler sends again after all: it is one thing, and is
-- shown once. What was held, and who had it done again, is with the remedy.
delete from wakeful_delivery where id = :id and run_seq = :run_seq and state = 'discarded'
  and exists (select 1 from wakeful_run where seq = :run_seq and token = :token and state = 'running' and committed_at is null)

-- stage_effect(now, id, root, run_seq, token, app, agent, action, reference, safety, arguments, attempt, position) --
-- To be released once the run is committed. One that was staged before and never begun is staged anew.
insert into wakeful_effect
  (id, root, run_seq, app, agent, action, reference, safety, state, arguments, tries, attempt, position, opened_at, staged)
select :id, :root, seq, :app, :agent, :action, :reference, :safety, 'staged', :arguments, 0, :attempt, :position, {now}, 1
from wakeful_run where seq = :run_seq and token = :token and state = 'running'
on conflict (id) do update
set state = 'staged', run_seq = excluded.run_seq, position = excluded.position, attempt = excluded.attempt, reason = null,
    staged = 1, opened_at = excluded.opened_at
where wakeful_effect.state = 'staged' or (wakeful_effect.state = 'abandoned' and wakeful_effect.settled_by is null)

-- drop_effect(now, id, run_seq, token) --
-- Staged by an earlier commit of the run, certainly not done, and not asked for any more.
update wakeful_effect set state = 'abandoned', reason = 'not asked for again', settled_at = {now}
where id = :id and staged = 1 and state in ('staged', 'retrying')
  and exists (select 1 from wakeful_run where seq = :run_seq and token = :token and state = 'running')

-- open_staged_effect(now, id, run_seq, token, state, reason, tries, attempt) --
-- Its turn has come: from staged to an intent, or held.
update wakeful_effect set state = :state, reason = :reason, tries = :tries, attempt = :attempt, opened_at = {now}
where id = :id and (state = 'staged' or (state = 'abandoned' and settled_by is null))
  and exists (select 1 from wakeful_run where seq = :run_seq and token = :token and state = 'running' and cancel_at is null)
returning id, opened_at

-- release_deliveries(now, run_seq) --
update wakeful_delivery set state = 'pending', reason = null, due_at = {now} where run_seq = :run_seq and state = 'held'
returning channel

-- discard_deliveries(now, run_seq, reason) --
update wakeful_delivery set state = 'discarded', reason = :reason, settled_at = {now}
where run_seq = :run_seq and state = 'held'

-- abandon_staged(now, root, run_seq, reason) --
-- Never begun, and not to be begun.
update wakeful_effect set state = 'abandoned', reason = :reason, settled_at = {now}
where root = :root and run_seq = :run_seq and state = 'staged'

-- load_sent(root) --
-- What was committed for the family of a run: a further run of it sends none of that again.
select :root, delivery.id from wakeful_delivery delivery
where delivery.run_seq in (select seq from wakeful_run where id = :root union all select seq from wakeful_run where root = :root and id <> root)
  and delivery.state in ('pending', 'delivered', 'dead')

-- take_lane(app, channel, process) --
-- A lane that nobody has, or that this process has without knowing it: the answer was lost.
insert into wakeful_lane (app, channel, owner, token) values (:app, :channel, :process, 1)
on conflict (app, channel) do update set owner = excluded.owner, token = wakeful_lane.token + 1
where wakeful_lane.owner is null or wakeful_lane.owner = excluded.owner
returning token

-- keep_lane(app, channel, process, token) --
select token from wakeful_lane
where app = :app and channel = :channel and owner = :process and token = :token {for_update}

-- leave_lane(app, channel, token) --
update wakeful_lane set owner = null where app = :app and channel = :channel and token = :token

-- free_lanes(process) --
-- The lanes of a process that died or left.
update wakeful_lane set owner = null where owner = :process returning channel

-- next_deliveries(now, app, channel, most) --
-- In the order of their commits, with how long each must still wait.
select delivery.seq, delivery.id, delivery.message, delivery.subject, delivery.created_at, delivery.tries,
  run.agent, run.id, delivery.due_at - {now},
  (select envelope from wakeful_event event where event.seq = run.event_seq), {now} - delivery.created_at, delivery.error
from wakeful_delivery delivery join wakeful_run run on run.seq = delivery.run_seq
where delivery.app = :app and delivery.channel = :channel and delivery.state = 'pending'
order by delivery.seq limit :most

-- first_delivery(now, app, channel) --
-- Is there anything at all? Taking the lane is a write, and those would wake other processes for nothing.
select due_at - {now} from wakeful_delivery where app = :app and channel = :channel and state = 'pending' order by seq limit 1

-- save_delivery(now, seq, state, tries, delay, error, reason) --
-- One that a person discarded while it was under way stays so, unless it has arrived.
update wakeful_delivery
set state = :state, tries = :tries, due_at = {now} + :delay, error = :error, reason = :reason,
    settled_at = case when cast(:state as text) <> 'pending' then {now} end
where seq = :seq and (state = 'pending' or (state = 'discarded' and cast(:state as text) = 'delivered'))

-- find_deliveries(root, id) --
select delivery.seq, delivery.state, delivery.run_seq, delivery.error, delivery.app, delivery.channel
from wakeful_delivery delivery
where delivery.id = :id
  and delivery.run_seq in (select seq from wakeful_run where id = :root union all select seq from wakeful_run where root = :root and id <> root)
order by delivery.seq desc

-- redo_delivery(now, seq, state, reason) --
update wakeful_delivery
set state = :state, reason = :reason, tries = case state when 'dead' then 0 else tries end, due_at = {now},
    error = case state when 'dead' then null else error end,
    settled_at = case when cast(:state as text) <> 'pending' then {now} end
where seq = :seq and state in ('dead', 'pending')
returning seq

-- holding_run(now, app, agent) --
-- Does a run keep the state of its agent? Then no other may go; may it go itself?
select case when run.state <> 'running' and run.due_at <= {now} then 1 else 0 end
from wakeful_state state join wakeful_run run on run.seq = state.holder
where state.app = :app and state.agent = :agent and state.key = '' and run.state in ('ready', 'running', 'waiting')

-- due_of_agent(now, app, agent) --
-- Is any run due?
select 1 from wakeful_run
where app = :app and agent = :agent and state in ('ready', 'waiting') and due_at <= {now} and crashes < 2
limit 1

-- take_state(app, agent) --
-- The state of an agent, locked until the claim of the run that gets it is committed.
insert into wakeful_state (app, agent, key) values (:app, :agent, '')
on conflict (app, agent, key) do update set agent = excluded.agent
returning value, version, holder

-- state_of_run(seq) --
select state from wakeful_run where seq = :seq

-- hold_state(app, agent, seq) --
update wakeful_state set holder = :seq where app = :app and agent = :agent and key = ''

-- save_state(now, app, agent, key, version, value, run_seq, token) --
-- Compare and set. No row comes back when somebody else changed it, or the claim is lost.
update wakeful_state
set value = :value, version = version + 1, changed_at = {now},
    changed_by = (select id from wakeful_run where seq = :run_seq)
where app = :app and agent = :agent and key = :key and version = :version
  and exists (select 1 from wakeful_run where seq = :run_seq and token = :token and state = 'running' and cancel_at is null)
returning agent

-- release_state(now, app, agent, key, version, value, run) --
-- As save_state, for a held output that a person lets out.
update wakeful_state set value = :value, version = version + 1, changed_at = {now}, changed_by = :run
where app = :app and agent = :agent and key = :key and version = :version
returning agent

-- change_state(now, app, agent, key, value, operator) --
-- By a person. The version rises, so that a run that has read it is not saved over this.
insert into wakeful_state (app, agent, key, value, version, changed_by, changed_at)
values (:app, :agent, :key, :value, 1, :operator, {now})
on conflict (app, agent, key) do update
set value = excluded.value, version = wakeful_state.version + 1, changed_by = excluded.changed_by,
    changed_at = excluded.changed_at
returning version

-- leave_run(now, seq, token, state, reason, delay, error, failed, stopping) --
-- Give a run back: to be claimed again at once, or after a delay. One that is to stop does not go to wait before its owner
-- knows that (`stopping`).
update wakeful_run
set state = :state, reason = :reason, owner = null, due_at = {now} + :delay, error = :error,
    attempts = attempts + :failed
where seq = :seq and token = :token and state = 'running' and (cancel_at is null or :stopping = 1)
returning seq

-- insert_effect(now, id, root, run_seq, token, app, agent, action, reference, safety, state, reason, arguments, tries, attempt, position, undoes) --
-- The intent, before the call. Fenced by the run's token; no row comes back when it is known, or the claim is lost, or the
-- run is to stop: then it begins nothing more but what undoes the rest.
insert into wakeful_effect
  (id, root, run_seq, app, agent, action, reference, safety, state, reason, arguments, tries, attempt, position, opened_at,
  undoes)
select :id, :root, seq, :app, :agent, :action, :reference, :safety, :state, :reason, :arguments, :tries, :attempt,
  :position, {now}, :undoes
from wakeful_run where seq = :run_seq and token = :token and state = 'running'
  and (cancel_at is null or cast(:undoes as text) is not null)
on conflict (id) do nothing
returning id, opened_at

-- save_effect(now, id, run_seq, token, state, reason, result, error, tries, attempt, due_at, doubtful) --
-- What became of it. One that is confirmed or that a person settled stays as it is; but a person who confirmed it with a
-- result that does not fit is asked again.
update wakeful_effect
set state = :state, reason = :reason, result = :result, error = :error, tries = :tries, attempt = :attempt,
    run_seq = :run_seq, due_at = :due_at, doubtful = :doubtful,
    called_at = case when cast(:state as text) = 'intent' then {now} else called_at end,
    settled_at = case when cast(:state as text) in ('confirmed', 'failed') then {now} end
where id = :id
  and (state not in ('confirmed', 'abandoned', 'undone')
    or (state = 'confirmed' and settled_by is not null and cast(:state as text) = 'held'))
  and exists (select 1 from wakeful_run where seq = :run_seq and token = :token and state = 'running')
returning id

-- load_effects(root) --
select root, id, action, reference, safety, state, arguments, reason, result, error, tries, attempt, position, opened_at,
  settled_by, note, staged, coalesce(called_at, opened_at), coalesce(due_at, 0), doubtful, undoes,
  stored_before is not null, once, operation, follows, settlement
from wakeful_effect where root = :root order by position, seq

-- find_effect(id) --
select effect.root, effect.id, effect.action, effect.reference, effect.safety, effect.state, effect.arguments,
  effect.reason, effect.result, effect.error, effect.tries, effect.attempt, effect.position, effect.opened_at,
  effect.settled_by, effect.note, effect.staged, coalesce(effect.called_at, effect.opened_at), coalesce(effect.due_at, 0),
  effect.doubtful, effect.undoes, effect.stored_before is not null, effect.once, effect.operation,
  effect.follows, effect.settlement, run.id
from wakeful_effect effect join wakeful_run run on run.seq = effect.run_seq where effect.id = :id

-- settle_effect(now, id, state, result, operator, note, settlement) --
-- A person's answer. The first stands: no row comes back for a second. What a run left open that is over can be settled too.
update wakeful_effect
set state = :state, result = coalesce(:result, result), settled_by = :operator, note = :note, settlement = :settlement,
    settled_at = {now}, due_at = null, doubtful = case when cast(:state as text) = 'retrying' then 0 else doubtful end,
    error = case when cast(:state as text) = 'retrying' then null else error end
where id = :id
  and (state = 'held' or (state in ('intent', 'unknown') and exists (
    select 1 from wakeful_run run where run.seq = wakeful_effect.run_seq and run.state in ('dead', 'denied', 'cancelled'))))
returning root, undoes

-- release_held_runs(now, root) --
-- The time for which it was held does not count for its deadline. What is held of a family goes on once no effect of it is held any more. A held output has
-- an outcome and is not committed: it waits on.
update wakeful_run
set state = 'ready', reason = 'a person settled what it was held for', due_at = {now},
    started_at = started_at + ({now} - coalesce(due_at, {now}))
where seq in (
    select seq from wakeful_run where id = :root union all select seq from wakeful_run where root = :root and id <> root
  )
  and state = 'held' and (outcome is null or committed_at is not null)
  and not exists (select 1 from wakeful_effect effect where effect.root = :root and effect.state = 'held')
returning app, agent, id, seq

-- find_run_to_redo(id) --
select seq, id, root, state, error, app, agent, reason,
  (outcome is not null and committed_at is null)
    or not exists (select 1 from wakeful_effect effect where effect.root = wakeful_run.root and effect.state = 'held'),
  key, gathered, failed_with is not null and cancel_at is null, committed_at is not null
from wakeful_run where id = :id {for_update}

-- replay_run(now, seq, reason, data) --
-- As if it had never been tried, but for what is finished. The token rises, so that it is no first start. One that was
-- committed stays so, and only releases what is left, unless other data is given: then it is all done anew. One that was
-- cancelled is not any more; one that died while it was being undone goes on with that. `~` before its version: it may go
-- on with whatever code it meets.
update wakeful_run
set state = 'ready', reason = :reason, due_at = {now}, token = token + 1, attempts = 0, crashes = 0, started_at = null,
    finished_at = null, error = null, data = coalesce(:data, data), state_change = null, version = '~' || ltrim(version, '~'),
    failed_with = case when cancel_at is null then null else failed_with end,
    cancel_at = case when state = 'cancelled' then null else cancel_at end,
    cancel_by = case when state = 'cancelled' then null else cancel_by end,
    cancel_note = case when state = 'cancelled' then null else cancel_note end,
    output = case when committed_at is null or cast(:data as text) is not null then null else output end,
    outcome = case when committed_at is null or cast(:data as text) is not null then null else outcome end,
    committed_at = case when cast(:data as text) is not null then null else committed_at end
where seq = :seq

-- discard_run(now, seq, reason) --
update wakeful_run set state = 'cancelled', reason = :reason, finished_at = {now} where seq = :seq

-- clear_state_fact(run_seq) --
-- A replay reads the state of its agent anew.
delete from wakeful_step where run_seq = :run_seq and key = 'state' and state = 'fact'

-- revive_staged(root, run_seq) --
-- A committed run that was discarded and is replayed after all: what it had not begun is to be done again.
update wakeful_effect set state = 'staged', reason = 'replayed', settled_at = null
where root = :root and run_seq = :run_seq and staged = 1 and state = 'abandoned' and settled_by is null

-- family_at_work(root, seq) --
-- Other runs of a family that are not over: two at once would do the same effects beside each other.
select cast(:seq as bigint), id from wakeful_run
where root = :root and id <> root and seq <> :seq and state in ('ready', 'running', 'waiting', 'held', 'parked')
union all
select cast(:seq as bigint), id from wakeful_run
where id = :root and seq <> :seq and state in ('ready', 'running', 'waiting', 'held', 'parked')

-- clear_failed_steps(run_seq) --
-- What comes back is kept with the remedy: no error is lost by a replay.
delete from wakeful_step where run_seq = :run_seq and state = 'failed' returning run_seq, name, error

-- clear_trouble(run_seq) --
-- What was being tried again is tried anew, with a day of its own.
delete from wakeful_step where run_seq = :run_seq and (state = 'retrying' or key = 'failing')

-- clear_failed_effects(root) --
-- Refused for good, or so it seemed: it was certainly not done, and may be tried again.
update wakeful_effect set state = 'retrying', tries = 0, reason = 'replayed' where root = :root and state = 'failed'
returning root, action, error

-- count_family(root) --
-- How many there are beside the first: those are in an index of their own, and it is small.
select cast(:root as text), count(*) from wakeful_run where root = :root and id <> root

-- data_of_run(seq) --
-- The data that a person gave it instead of its event's.
select seq, data from wakeful_run where seq = :seq

-- insert_again(now, id, seq, reason, data) --
-- A further run of the same family: the same event, the same agent, the same effects.
insert into wakeful_run (id, root, app, agent, event_seq, state, reason, due_at, created_at, data, key, priority, gathered)
select :id, root, app, agent, event_seq, 'ready', :reason, {now}, {now}, cast(:data as text), key, priority, gathered
from wakeful_run where seq = :seq
returning id, seq

-- insert_remedy(now, run_seq, verb, operator, note, data, error) --
insert into wakeful_remedy (run_seq, verb, operator, note, data, error, done_at)
values (:run_seq, :verb, :operator, :note, :data, :error, {now})

-- start_admission(event_seq, agent, run_id, reason) --
-- A stored event is handed to an agent that did not get it, or did nothing with it. No row comes back for one that has it.
insert into wakeful_admission (event_seq, agent, state, run_id, reason)
values (:event_seq, :agent, 'started', :run_id, :reason)
on conflict (event_seq, agent) do update
set state = excluded.state, run_id = excluded.run_id, reason = excluded.reason
where wakeful_admission.state in ('skipped', 'expired') and wakeful_admission.run_id is null
returning event_seq

-- accept_unmatched(seq) --
-- Somebody takes it after all.
update wakeful_event set state = 'accepted', reason = null where seq = :seq and state = 'unmatched'

-- token_of_run(seq) --
select seq, token, state, committed_at, cancel_by, cancel_note from wakeful_run where seq = :seq

-- insert_attempt(now, run_seq, token, process, outcome, error, started_at) --
insert into wakeful_attempt (run_seq, token, process, outcome, error, started_at, ended_at)
values (:run_seq, :token, :process, :outcome, :error, :started_at, {now})
on conflict (run_seq, token) do nothing

-- expire_admission(run_seq, reason) --
-- The run of an event that expired before its first start; one that is over many expires with the last of them.
update wakeful_admission set state = 'expired', reason = :reason
where agent = (select agent from wakeful_run where seq = :run_seq)
  and event_seq in (
    select event_seq from wakeful_run where seq = :run_seq
    union all
    select event_seq from wakeful_batch where run_seq = :run_seq
  )

-- register_process(now, id, host, pid, lease, app, agents, knows, versions) --
insert into wakeful_process (id, host, pid, state, started_at, lease_until, app, agents, knows, versions)
values (:id, :host, :pid, 'alive', {now}, {now} + :lease, :app, :agents, :knows, :versions)
on conflict (id) do nothing

-- renew_lease(now, id, lease) --
-- No row comes back when others have already declared this process dead: it must start again under a new identity.
update wakeful_process set lease_until = {now} + :lease where id = :id and state = 'alive' returning id

-- retire_process(id) --
update wakeful_process set state = 'stopped' where id = :id and state = 'alive'

-- living_processes(now) --
-- Who counts as alive, and how much of each lease is left. One that was seen to be gone (bury_gone) stays here until the end of its
-- lease: some of its runs are still to be taken back.
select id, lease_until - {now} from wakeful_process where state = 'alive' or (state = 'dead' and guard is not null)

-- bury_process(id) --
-- Declare a process dead. No row comes back when somebody else was first.
update wakeful_process set state = 'dead', guard = null
where id = :id and (state = 'alive' or (state = 'dead' and guard is not null)) returning id

-- bury_expired(now, id) --
-- As bury_process, but only while its lease is over: it may have been renewed since it was looked at.
update wakeful_process set state = 'dead', guard = null
where id = :id and (state = 'alive' or (state = 'dead' and guard is not null)) and lease_until <= {now} returning id

-- take_back_runs(now, process) --
-- Recovery re-enqueues and never executes. The token rises, so that the old owner's writes are refused.
update wakeful_run
set state = 'ready', reason = 'its process died', owner = null, due_at = {now}, token = token + 1, crashes = crashes + 1
where owner = :process and state = 'running'
returning seq, token, claimed_at

-- give_back_runs(now, process) --
-- As take_back_runs, for a process that leaves in good order: no crash is counted.
update wakeful_run
set state = 'ready', reason = 'its worker stopped', owner = null, due_at = {now}, token = token + 1
where owner = :process and state = 'running'
returning seq, token, claimed_at

-- runs_of_process(process) --
select id from wakeful_run where owner = :process and state = 'running'

-- forget_run(now, id, process) --
-- Give back a run whose claim was committed but whose answer was lost.
update wakeful_run set state = 'ready', owner = null, due_at = {now}, token = token + 1
where id = :id and owner = :process and state = 'running'

-- insert_operation(now, app, operator, way, verb, target, detail) --
insert into wakeful_operation (app, operator, way, verb, target, detail, done_at)
values (:app, :operator, :way, :verb, :target, :detail, {now})

-- find_choice(choice) --
-- How many of a choice were done until now.
select done from wakeful_operation where choice = :choice

-- count_operation(now, app, operator, way, verb, target, detail, choice, done) --
-- The one row of a choice that is carried out slice by slice.
insert into wakeful_operation (app, operator, way, verb, target, detail, choice, done, done_at)
values (:app, :operator, :way, :verb, :target, :detail, :choice, :done, {now})
on conflict (choice) where choice is not null do update set done = excluded.done, detail = excluded.detail

-- begin_operation(now, app, operator, verb, target, detail) --
-- For a migration, which may work on a schema that has no ways yet.
insert into wakeful_operation (app, operator, verb, target, detail, done_at)
values (:app, :operator, :verb, :target, :detail, {now}) returning seq

-- note_way(way, seq) --
update wakeful_operation set way = :way where seq = :seq

-- remove_operation(seq) --
-- A longer row takes its place in the same transaction.
delete from wakeful_operation where seq = :seq

-- applied_migrations() --
select number, name from wakeful_migration order by number

-- record_migration(now, number, name) --
insert into wakeful_migration (number, name, applied_at) values (:number, :name, {now})

-- migration_ledger() --
-- Each migration with what is known of it; at the end those that are half done.
select migration.number, migration.name, detail.digest, detail.needs, 1 from wakeful_migration migration
left join wakeful_migration_detail detail on detail.number = migration.number
union all
select number, name, digest, needs, 0 from wakeful_migration_detail where finished_at is null
order by 1

-- begin_migration(number, name, digest, needs) --
insert into wakeful_migration_detail (number, name, digest, needs) values (:number, :name, :digest, :needs)

-- finish_migration(now, number) --
update wakeful_migration_detail set finished_at = {now} where number = :number

-- older_processes(now, needs) --
-- Processes at work whose code does not know a migration. Those that do not say what they know are older than the saying.
select id, host, pid, coalesce(knows, 7) from wakeful_process
where state = 'alive' and lease_until > {now} and coalesce(knows, 7) < :needs order by id
