-- Order by key, and runs that gather events. Runs of a key have places. The first ones, as many as may run at once, are due; the
-- others have no due time until one of those ends.
-- A priority moves the due time of a new run (priority + 10) minutes into the past. The older due time goes first, so a run of low
-- priority that has waited long enough goes before a new one of high priority.

-- lock_keys(app, agent, key, most, blocks) --
-- A transaction that accepts or ends runs of a key locks its row until the commit, before it reads any run of it. `most` is 0 if it is
-- not to be changed. An unchanged key gets no new row version, but is locked all the same.
insert into wakeful_key (app, agent, key, counter, most, blocks) values (:app, :agent, :key, 0, :most, :blocks)
on conflict (app, agent, key) do update set most = excluded.most, blocks = excluded.blocks
where excluded.most > 0 and (wakeful_key.most <> excluded.most or wakeful_key.blocks <> excluded.blocks)

-- keys_of_runs(id) --
select app, agent, key, seq from wakeful_run where id = :id and key is not null

-- take_places(app, agent, key, many) --
-- Reserves `many` places; returns the last one.
update wakeful_key set counter = counter + :many where app = :app and agent = :agent and key = :key
returning app, agent, key, counter

-- let_go(seq) --
-- An ended run gives up its place. A dead letter keeps it if its agent says so.
update wakeful_run set place = null
where seq = :seq and place is not null
  and (state in ('done', 'denied', 'cancelled') or (state = 'dead' and not exists (
    select 1 from wakeful_key kept
    where kept.app = wakeful_run.app and kept.agent = wakeful_run.agent and kept.key = wakeful_run.key and kept.blocks = 1)))

-- next_of_key(app, agent, key) --
-- The first runs of a key, as many as may run at once. Derived from the rows alone.
select app, agent, key, seq, state, due_at from wakeful_run
where app = :app and agent = :agent and key = :key and place is not null
order by place
limit coalesce((select max(most, 1) from wakeful_key where app = :app and agent = :agent and key = :key), 1)

-- promote(now, seq, behind) --
-- Makes one of the first runs of its key due, unless it still gathers. Repeating this changes nothing. If several may start at once, each
-- is due a microsecond after the one before it, so that they start in order.
update wakeful_run
set due_at = case
    when gathers_until > {now} then gathers_until
    else {now} - coalesce((priority + 10) * 60000000, 0) - :behind
  end
where seq = :seq and state = 'ready' and due_at is null
returning id, app, agent

-- places_of_family(root) --
-- The places that runs of a family hold: dead letters, and the run that is about to continue.
select root, seq, place from wakeful_run where id = :root and place is not null
union all
select root, seq, place from wakeful_run where root = :root and id <> root and place is not null

-- queue_again(seq, place) --
-- A replayed run waits for its turn, at the place that its family kept or at the end.
update wakeful_run set place = :place, due_at = null where seq = :seq

-- open_of_key(app, agent, key) --
-- Open runs of a key, in order.
select app, agent, key, seq, id, state, token from wakeful_run
where app = :app and agent = :agent and key = :key and place is not null
  and state in ('ready', 'running', 'waiting', 'held', 'parked')
order by place

-- gathering_of_key(app, agent, key) --
-- The run that the next event may join or supersede: the newest one that has not started.
select app, agent, cast(:key as text), seq, id, gathering_since, gathered from wakeful_run
where app = :app and agent = :agent and coalesce(key, '') = :key and state = 'ready' and gathering_since is not null
  and token = 0
order by seq desc limit 1

-- supersede_run(now, seq, reason, outcome) --
-- A newer run takes its place. No row comes back if it has started: the first to commit wins.
update wakeful_run
set state = 'cancelled', reason = :reason, outcome = :outcome, due_at = null, place = null, finished_at = {now}
where seq = :seq and state = 'ready' and token = 0
returning seq, id, parent_seq, parent_key

-- supersede_admission(run_seq, reason) --
-- Found by the event, because an agent may have very many admissions (hence `agent || ''`).
update wakeful_admission set state = 'superseded', reason = :reason
where event_seq = (select event_seq from wakeful_run where seq = :run_seq)
  and agent || '' = (select agent from wakeful_run where seq = :run_seq)
  and run_id = (select id from wakeful_run where seq = :run_seq)

-- ask_to_stop(now, seq, asked_by, note) --
-- A running run stops at its next step. One that waits, is held or parked becomes ready, for a worker to undo its effects.
update wakeful_run
set cancel_at = {now}, cancel_by = :asked_by, cancel_note = :note,
    due_at = case when state in ('waiting', 'held', 'parked') then {now} else due_at end, parked_for = null, halted_for = null,
    state = case when state in ('waiting', 'held', 'parked') then 'ready' else state end
where seq = :seq and state in ('ready', 'running', 'waiting', 'held', 'parked') and cancel_at is null

-- join_run(now, seq, many, most, latest, expires, priority) --
-- Adds `many` events to a gathering run. No row comes back if it has started or has no room. The run takes the highest priority of its
-- events, and expires with the last one.
update wakeful_run
set gathered = gathered + :many,
    gathers_until = case when gathered + :many >= :most then {now} else gathers_until end,
    due_at = case
      when due_at is null or gathered + :many < :most then due_at
      else {now} - coalesce((max(priority, :priority) + 10) * 60000000, 0)
    end,
    priority = max(priority, :priority),
    expires_at = case
      when expires_at is null then null
      when :latest is null then max(expires_at, {now} + :expires)
      else max(expires_at, min(:latest, {now} + coalesce(:expires, :latest)))
    end
where seq = :seq and state = 'ready' and token = 0 and gathered + :many <= :most
returning seq, gathered

-- insert_flow_run(now, id, root, app, agent, event_seq, latest, expires, key, place, priority, since, wait, longest, gathered, goes) --
-- A run with a place becomes due when its turn comes, or at once if that is now. A gathering run waits for a newer event, at most until
-- `longest` after the first.
insert into wakeful_run
  (id, root, app, agent, event_seq, state, created_at, expires_at, key, place, priority, gathered, gathering_since,
   gathers_until, due_at)
select :id, :root, :app, :agent, :event_seq, 'ready', {now},
  case when :latest is null then {now} + :expires else min(:latest, coalesce({now} + :expires, :latest)) end,
  :key, :place, :priority, :gathered,
  case when :wait is null then null else coalesce(:since, {now}) end,
  case when :longest is null then {now} + :wait else min({now} + :wait, coalesce(:since, {now}) + :longest) end,
  case
    when :place is not null and :goes is null then null
    when coalesce(:wait, 0) = 0 then {now} - coalesce((:priority + 10) * 60000000, 0) - coalesce(:goes, 0)
    when :longest is null then {now} + :wait
    else min({now} + :wait, coalesce(:since, {now}) + :longest)
  end
where true
on conflict (id) do nothing
returning id, seq

-- insert_member(run_seq, event_seq, position) --
insert into wakeful_batch (run_seq, event_seq, position) values (:run_seq, :event_seq, :position)
on conflict (run_seq, event_seq) do nothing

-- copy_members(run_seq, again_seq) --
-- A repeated run has the same events.
insert into wakeful_batch (run_seq, event_seq, position)
select :again_seq, event_seq, position from wakeful_batch where run_seq = :run_seq

-- load_members(run_seq) --
select member.run_seq, event.envelope
from wakeful_batch member join wakeful_event event on event.seq = member.event_seq
where member.run_seq = :run_seq order by member.position

-- state_of_key(app, agent, key) --
-- The agent's state for a key. The key has one run at a time, so no other run saves it.
insert into wakeful_state (app, agent, key) values (:app, :agent, :key)
on conflict (app, agent, key) do update set agent = excluded.agent
returning agent, key, value, version

-- list_members(run_seq) --
select event.source, event.id, event.type, event.key, event.envelope
from wakeful_batch member join wakeful_event event on event.seq = member.event_seq
where member.run_seq = :run_seq order by member.position

-- flow_of_run(seq) --
-- Its position in the key: how many runs are before it, the first of those, and how many wait behind a dead letter.
select run.key, run.priority, run.gathering_since, run.gathers_until, run.gathered,
  case when run.place is not null and run.state = 'ready' and run.due_at is null then (
    select count(*) from wakeful_run ahead
    where ahead.app = run.app and ahead.agent = run.agent and ahead.key = run.key and ahead.place < run.place)
  end,
  (
    select ahead.id from wakeful_run ahead
    where ahead.app = run.app and ahead.agent = run.agent and ahead.key = run.key and ahead.place < run.place
    order by ahead.place limit 1
  ),
  (
    select ahead.state from wakeful_run ahead
    where ahead.app = run.app and ahead.agent = run.agent and ahead.key = run.key and ahead.place < run.place
    order by ahead.place limit 1
  ),
  case when run.state = 'dead' and run.place is not null then (
    select count(*) from wakeful_run behind
    where behind.app = run.app and behind.agent = run.agent and behind.key = run.key and behind.place > run.place)
  end
from wakeful_run run where run.seq = :seq

-- keyed_agents() --
select distinct agent from wakeful_key where key <> ''
