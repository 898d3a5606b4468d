-- Schedules: rules of time with their next occurrence, and the records of earlier occurrences.

-- due_schedules(now, app, after_due, after_seq, most) --
-- Schedules whose next occurrence is due, the longest due first.
select {schedule}, {now} from wakeful_schedule schedule
where app = :app and state = 'live' and due_at <= {now} and (due_at, seq) > (:after_due, :after_seq)
order by due_at, seq limit :most

-- queued_schedules(now, app) --
-- Schedules with occurrences that wait for a run.
select {schedule}, {now} from wakeful_schedule schedule
where app = :app and waits_for is not null and state = 'live' order by seq

-- next_schedule(now, app) --
-- When the next schedule becomes due that is not due yet.
select {now}, (select min(due_at) from wakeful_schedule where app = :app and state = 'live' and due_at > {now})

-- find_schedule(now, app, name) --
select {schedule}, {now} from wakeful_schedule schedule where app = :app and name = :name

-- schedules_of_app(now, app) --
select {schedule}, {now} from wakeful_schedule schedule where app = :app order by name

-- advance_schedule(seq, revision, expected_next, expected_queued, next_at, due_at, state, queued_from, queued_to, queued_count, queued_before, done_until, waits_for) --
-- Compare and set: only the caller that knew the row as it is gets a row back.
update wakeful_schedule
set next_at = :next_at, due_at = :due_at, state = :state, queued_from = :queued_from, queued_to = :queued_to,
    queued_count = :queued_count, queued_before = :queued_before, done_until = :done_until, waits_for = :waits_for
where seq = :seq and revision = :revision and state = 'live'
  and coalesce(next_at, -1) = coalesce(cast(:expected_next as bigint), -1)
  and coalesce(queued_to, -1) = coalesce(cast(:expected_queued as bigint), -1)
returning seq

-- note_fired(now, seq, last_at, last_run) --
update wakeful_schedule set last_at = :last_at, last_run = :last_run, fired_at = {now} where seq = :seq

-- last_occurrence(schedule_seq) --
select schedule_seq, seq, state, reason, revision, run, to_at, count from wakeful_occurrence
where schedule_seq = :schedule_seq order by to_at desc, seq desc limit 1

-- insert_occurrence(now, schedule_seq, state, reason, from_at, to_at, count, revision, run) --
insert into wakeful_occurrence (schedule_seq, state, reason, from_at, to_at, count, revision, run, settled_at)
values (:schedule_seq, :state, :reason, :from_at, :to_at, :count, :revision, :run, {now})

-- extend_occurrence(now, seq, to_at, count) --
update wakeful_occurrence set to_at = :to_at, count = count + :count, settled_at = {now} where seq = :seq

-- supersede_occurrence(run, reason) --
-- Its run had not started, and a newer run took its place.
update wakeful_occurrence set state = 'superseded', reason = :reason where run = :run and state = 'fired'

-- lock_schedule(app, name) --
select seq, revision, next_at, queued_to, state from wakeful_schedule where app = :app and name = :name {for_update}

-- insert_schedule(now, app, name, agent, origin, state, definition, data, owner, next_at, due_at, done_until, changed_by) --
insert into wakeful_schedule
  (app, name, agent, origin, state, revision, definition, data, owner, next_at, due_at, done_until, created_at, changed_at, changed_by)
values (:app, :name, :agent, :origin, :state, 1, :definition, :data, :owner, :next_at, :due_at, :done_until, {now}, {now}, :changed_by)
on conflict (app, name) do nothing
returning seq

-- change_schedule(now, seq, agent, origin, state, definition, data, owner, next_at, due_at, queued_from, queued_to, queued_count, queued_before, done_until, waits_for, changed_by, again) --
-- A schedule that is added again after it was removed or done counts as new.
update wakeful_schedule
set agent = :agent, origin = :origin, state = :state, definition = :definition, data = :data, owner = :owner,
    next_at = :next_at, due_at = :due_at, queued_from = :queued_from, queued_to = :queued_to, queued_count = :queued_count,
    queued_before = :queued_before, done_until = :done_until, waits_for = :waits_for, changed_by = :changed_by, changed_at = {now}, revision = revision + 1,
    created_at = case when :again = 1 then {now} else created_at end
where seq = :seq

-- insert_schedule_change(now, schedule_seq, verb, operator, note, definition) --
insert into wakeful_schedule_change (schedule_seq, revision, verb, operator, note, definition, changed_at)
select seq, revision, :verb, :operator, :note, :definition, {now} from wakeful_schedule where seq = :schedule_seq

-- occurrences_of_schedule(schedule_seq, before, most) --
select seq, state, reason, from_at, to_at, count, revision, run, settled_at, redone from wakeful_occurrence
where schedule_seq = :schedule_seq and to_at < :before order by to_at desc, seq desc limit :most

-- changes_of_schedule(schedule_seq, most) --
-- The `+ 0` keeps the planner from walking all changes in order of their seq.
select revision, verb, operator, note, definition, changed_at from wakeful_schedule_change
where schedule_seq = :schedule_seq order by seq + 0 desc limit :most

-- agents_with_schedules(app) --
select distinct agent from wakeful_schedule where app = :app

-- remove_occurrences(app, agent, before, most) --
-- The oldest records of an agent's schedules. The last record of each schedule stays, because the next may extend it.
delete from wakeful_occurrence where seq in (
  select one.seq from wakeful_schedule schedule join wakeful_occurrence one on one.schedule_seq = schedule.seq
  where schedule.app = :app and schedule.agent = :agent and one.to_at < :before
    and exists (
      select 1 from wakeful_occurrence later where later.schedule_seq = one.schedule_seq and later.to_at > one.to_at)
  limit :most)
returning seq
