-- Queries about keys that must differ on PostgreSQL, each with the reason. Where a run is looked up by its seq, `= any(array[…])` and
-- `state || ''` have the reasons given at save_step and save_delivery.

-- lock_keys(app, agent, key, most, blocks) bulk --
-- differs: as save_step. The rows are sorted, and locked in that order.
insert into wakeful_key (app, agent, key, counter, most, blocks)
select given.app, given.agent, given.key, 0, given.most, given.blocks
from unnest(
  cast(:app as text[]), cast(:agent as text[]), cast(:key as text[]), cast(:most as bigint[]), cast(:blocks as bigint[])
) as given (app, agent, key, most, blocks)
on conflict (app, agent, key) do update set most = excluded.most, blocks = excluded.blocks
where excluded.most > 0 and (wakeful_key.most <> excluded.most or wakeful_key.blocks <> excluded.blocks)

-- keys_of_runs(id) bulk --
-- differs: as save_step.
select app, agent, key, seq from wakeful_run where id = any(cast(:id as text[])) and key is not null

-- take_places(app, agent, key, many) bulk --
-- differs: as save_step.
update wakeful_key kept set counter = counter + given.many
from unnest(cast(:app as text[]), cast(:agent as text[]), cast(:key as text[]), cast(:many as bigint[]))
  as given (app, agent, key, many)
where kept.app = any(array[given.app]) and kept.agent = any(array[given.agent]) and kept.key = any(array[given.key])
returning kept.app, kept.agent, kept.key, kept.counter

-- places_of_family(root) --
-- differs: `place + 0` keeps the planner from the index of all places.
select root, seq, place from wakeful_run where id = :root and place + 0 is not null
union all
select root, seq, place from wakeful_run where root = :root and id <> root and place + 0 is not null

-- let_go(seq) bulk --
-- differs: as save_step.
update wakeful_run run set place = null
from unnest(cast(:seq as bigint[])) as given (seq)
where run.seq = any(array[given.seq]) and run.place + 0 is not null
  and (run.state || '' in ('done', 'denied', 'cancelled') or (run.state || '' = 'dead' and not exists (
    select 1 from wakeful_key kept
    where kept.app = run.app and kept.agent = run.agent and kept.key = run.key and kept.blocks = 1)))

-- next_of_key(app, agent, key) bulk --
-- differs: as save_step.
select next.app, next.agent, next.key, next.seq, next.state, next.due_at
from unnest(cast(:app as text[]), cast(:agent as text[]), cast(:key as text[])) as given (app, agent, key)
cross join lateral (
  select app, agent, key, seq, state, due_at from wakeful_run
  where app = given.app and agent = given.agent and key = given.key and place is not null
  order by place
  limit coalesce((
    select greatest(most, 1) from wakeful_key kept
    where kept.app = given.app and kept.agent = given.agent and kept.key = given.key
  ), 1)
) next

-- promote(now, seq, behind) bulk --
-- differs: as save_step.
update wakeful_run run
set due_at = case
    when gathers_until > {now} then gathers_until
    else {now} - coalesce((priority + 10) * 60000000, 0) - given.behind
  end
from unnest(cast(:seq as bigint[]), cast(:behind as bigint[])) as given (seq, behind)
where run.seq = any(array[given.seq]) and run.state || '' = 'ready' and run.due_at is null
returning run.id, run.app, run.agent

-- open_of_key(app, agent, key) --
-- differs: as let_go.
select app, agent, key, seq, id, state, token from wakeful_run
where app = :app and agent = :agent and key = :key and place is not null
  and state || '' in ('ready', 'running', 'waiting', 'held', 'parked')
order by place

-- gathering_of_key(app, agent, key) --
-- differs: its index is on `seq + 0` and `state || ''`, which keeps the planner from walking all runs backwards, or all due
-- runs.
select app, agent, cast(:key as text), seq, id, gathering_since, gathered from wakeful_run
where app = :app and agent = :agent and coalesce(key, '') = :key and state || '' = 'ready' and gathering_since is not null
  and token = 0
order by seq + 0 desc limit 1

-- supersede_run(now, seq, reason, outcome) bulk --
-- differs: as save_step.
update wakeful_run run
set state = 'cancelled', reason = given.reason, outcome = given.outcome, due_at = null, place = null, finished_at = {now}
from unnest(cast(:seq as bigint[]), cast(:reason as text[]), cast(:outcome as text[])) as given (seq, reason, outcome)
where run.seq = any(array[given.seq]) and run.state || '' = 'ready' and run.token = 0
returning run.seq, run.id, run.parent_seq, run.parent_key

-- ask_to_stop(now, seq, asked_by, note) --
-- differs: as let_go.
update wakeful_run
set cancel_at = {now}, cancel_by = :asked_by, cancel_note = :note,
    due_at = case when state in ('waiting', 'held', 'parked') then {now} else due_at end, parked_for = null, halted_for = null,
    state = case when state in ('waiting', 'held', 'parked') then 'ready' else state end
where seq = :seq and state || '' in ('ready', 'running', 'waiting', 'held', 'parked') and cancel_at is null

-- join_run(now, seq, many, most, latest, expires, priority) bulk --
-- differs: as save_step. `greatest` and `least` ignore nulls.
update wakeful_run run
set gathered = gathered + given.many,
    gathers_until = case when gathered + given.many >= given.most then {now} else gathers_until end,
    due_at = case
      when due_at is null or gathered + given.many < given.most then due_at
      else {now} - coalesce((greatest(run.priority, given.priority) + 10) * 60000000, 0)
    end,
    priority = greatest(run.priority, given.priority),
    expires_at = case
      when expires_at is null or (given.latest is null and given.expires is null) then null
      else greatest(expires_at, least(given.latest, {now} + given.expires))
    end
from unnest(
  cast(:seq as bigint[]), cast(:many as bigint[]), cast(:most as bigint[]), cast(:latest as bigint[]),
  cast(:expires as bigint[]), cast(:priority as bigint[])
) as given (seq, many, most, latest, expires, priority)
where run.seq = any(array[given.seq]) and run.state || '' = 'ready' and run.token = 0
  and run.gathered + given.many <= given.most
returning run.seq, run.gathered

-- insert_flow_run(now, id, root, app, agent, event_seq, latest, expires, key, place, priority, since, wait, longest, gathered, goes) bulk --
-- differs: as save_step. `least` ignores nulls.
insert into wakeful_run
  (id, root, app, agent, event_seq, state, created_at, expires_at, key, place, priority, gathered, gathering_since,
   gathers_until, due_at)
select given.id, given.root, given.app, given.agent, given.event_seq, 'ready', {now},
  least(given.latest, {now} + given.expires), given.key, given.place, given.priority, given.gathered,
  case when given.wait is not null then coalesce(given.since, {now}) end,
  case when given.wait is not null then least({now} + given.wait, coalesce(given.since, {now}) + given.longest) end,
  case
    when given.place is not null and given.goes is null then null
    when coalesce(given.wait, 0) = 0 then {now} - coalesce((given.priority + 10) * 60000000, 0) - coalesce(given.goes, 0)
    else least({now} + given.wait, coalesce(given.since, {now}) + given.longest)
  end
from unnest(
  cast(:id as text[]), cast(:root as text[]), cast(:app as text[]), cast(:agent as text[]),
  cast(:event_seq as bigint[]), cast(:latest as bigint[]), cast(:expires as bigint[]), cast(:key as text[]),
  cast(:place as bigint[]), cast(:priority as bigint[]), cast(:since as bigint[]), cast(:wait as bigint[]),
  cast(:longest as bigint[]), cast(:gathered as bigint[]), cast(:goes as bigint[])
) as given (id, root, app, agent, event_seq, latest, expires, key, place, priority, since, wait, longest, gathered, goes)
on conflict (id) do nothing
returning id, seq

-- insert_member(run_seq, event_seq, position) bulk --
-- differs: as save_step.
insert into wakeful_batch (run_seq, event_seq, position)
select given.* from unnest(cast(:run_seq as bigint[]), cast(:event_seq as bigint[]), cast(:position as bigint[])) as given
on conflict (run_seq, event_seq) do nothing

-- load_members(run_seq) --
-- differs: the event of each member is looked up by key; a join may be planned in the other direction, over all events.
select member.run_seq, (select envelope from wakeful_event event where event.seq = member.event_seq)
from wakeful_batch member where member.run_seq = :run_seq order by member.position

-- expire_admission(run_seq, reason) --
-- differs: with `= any(array(…))` each admission is found by its key.
update wakeful_admission set state = 'expired', reason = :reason
where agent || '' = (select agent from wakeful_run where seq = :run_seq)
  and event_seq = any(array(
    select event_seq from wakeful_run where seq = :run_seq
    union all
    select event_seq from wakeful_batch where run_seq = :run_seq
  ))
