-- Alarms: raised, notified, acknowledged, muted, resolved. `tell_at` is the time of the next notification. Every statement that
-- changes an alarm keeps it up to date, so that the notifier reads one index only.

-- raise_alarm(now, key, app, text, agent, owner, loud, addressee, remind_at, cause) --
-- Opens an alarm, or refreshes the open one. A resolved alarm opens again as the next incident. A mute continues over incidents;
-- otherwise an alarm that comes and goes would notify people in spite of it. The same cause, found by two watchers at once, counts once.
insert into wakeful_alarm
  (key, app, state, text, count, opened_at, last_at, agent, owner, loud, tell_at, addressee, remind_at, cause, cause_at)
values (:key, :app, 'open', :text, 1, {now}, {now}, :agent, :owner, :loud, {now}, :addressee, :remind_at, :cause,
  case when cast(:cause as text) is not null then {now} end)
on conflict (key) do update
set text = excluded.text, last_at = excluded.last_at, agent = excluded.agent, owner = excluded.owner, loud = excluded.loud,
    addressee = excluded.addressee, remind_at = excluded.remind_at, ending = null, cause = excluded.cause,
    cause_at = excluded.cause_at,
    count = case
      when wakeful_alarm.state = 'resolved' then 1
      when wakeful_alarm.cause = excluded.cause and wakeful_alarm.cause_at = wakeful_alarm.last_at then wakeful_alarm.count
      else wakeful_alarm.count + 1
    end,
    opened_at = case wakeful_alarm.state when 'resolved' then excluded.opened_at else wakeful_alarm.opened_at end,
    incident = case wakeful_alarm.state when 'resolved' then wakeful_alarm.incident + 1 else wakeful_alarm.incident end,
    told = case wakeful_alarm.state when 'resolved' then 0 else wakeful_alarm.told end,
    told_at = case wakeful_alarm.state when 'resolved' then null else wakeful_alarm.told_at end,
    acknowledged_at = case wakeful_alarm.state when 'resolved' then null else wakeful_alarm.acknowledged_at end,
    acknowledged_by = case wakeful_alarm.state when 'resolved' then null else wakeful_alarm.acknowledged_by end,
    note = case wakeful_alarm.state when 'resolved' then null else wakeful_alarm.note end,
    resolved_at = null,
    tell_at = case
      when wakeful_alarm.state <> 'resolved' then wakeful_alarm.tell_at
      when wakeful_alarm.muted_until > excluded.opened_at and excluded.loud = 0 then wakeful_alarm.muted_until
      else excluded.opened_at
    end,
    state = case wakeful_alarm.state when 'resolved' then 'open' else wakeful_alarm.state end
returning key, count

-- note_cause(key, cause) --
-- An older version raised it, for a cause that it did not store: this one. Nothing else changes.
update wakeful_alarm set cause = :cause, cause_at = last_at
where key = :key and state <> 'resolved' and (cause_at is null or cause_at <> last_at)

-- resolve_alarm(now, key, ending) --
-- The cause is over. If people were notified of the alarm, they are notified of its end too.
update wakeful_alarm
set state = 'resolved', last_at = {now}, resolved_at = {now}, ending = :ending, tell_at = case when told > 0 then {now} end
where key = :key and state <> 'resolved'

-- lock_alarm(key) --
-- No other transaction raises or resolves it until the commit.
select key from wakeful_alarm where key = :key and state <> 'resolved' {for_update}

-- dead_of_alarm(key) --
-- Whether a dead letter or a held run that raised it is left.
select alarm from (
  select alarm from wakeful_run where alarm = :key and state = 'dead'
  union all
  select alarm from wakeful_run where alarm = :key and state = 'held'
  union all
  select alarm from wakeful_delivery where alarm = :key and state = 'dead'
  union all
  select alarm from wakeful_delivery where alarm = :key and state = 'unknown'
) as dead
limit 1

-- open_keys_below(app, about) --
-- The open alarms whose keys begin with this.
select key from wakeful_alarm
where app = :app and state <> 'resolved' and substr(key, 1, length(cast(:about as text))) = :about order by key

-- error_of_dead_run(key) --
-- The error of one of the dead letters that raised an alarm.
select error from wakeful_run where alarm = :key and state = 'dead' limit 1

-- error_of_dead_delivery(key) --
select error from wakeful_delivery where alarm = :key and state = 'dead' limit 1

-- note_alarm_of_run(seq, key) --
update wakeful_run set alarm = :key where seq = :seq

-- note_alarm_of_delivery(seq, key) --
update wakeful_delivery set alarm = :key where seq = :seq

-- alarms_of_runs(seq) --
select alarm from wakeful_run where seq = :seq and alarm is not null

-- alarms_of_deliveries(seq) --
select alarm from wakeful_delivery where seq = :seq and alarm is not null

-- find_alarm_to_change(now, key) --
select state, loud, acknowledged_by, app, muted_until > {now} from wakeful_alarm where key = :key {for_update}

-- acknowledge_alarm(now, key, operator, note) --
-- No further notification until it resolves.
update wakeful_alarm
set state = 'acknowledged', acknowledged_at = {now}, acknowledged_by = :operator, note = :note, tell_at = null
where key = :key and state = 'open'

-- mute_alarm(now, key, span) --
-- If it is still open when the mute ends, people are notified.
update wakeful_alarm
set muted_until = {now} + :span, tell_at = case when state = 'open' then {now} + :span else tell_at end
where key = :key

-- first_to_tell(now, app) --
-- The time until the next notification; null if there is none.
select min(tell_at) - {now} from wakeful_alarm where app = :app and tell_at is not null

-- alarms_to_tell(now, app, most) --
-- Concurrent notifiers skip each other's rows.
select key, state, text, count, opened_at, last_at, resolved_at, agent, owner, incident, loud, told, acknowledged_by,
  addressee, remind_at, ending
from wakeful_alarm
where app = :app and tell_at is not null and tell_at <= {now}
order by tell_at
limit :most
{skip_locked}

-- note_told(now, key, repeat) --
-- Sets the next notification while the alarm is open: after `repeat`, or once at `remind_at`, if it is set.
update wakeful_alarm
set told = told + 1, told_at = {now}, tell_at = case
    when state <> 'open' then null
    when remind_at is null then {now} + cast(:repeat as bigint)
    when remind_at > {now} then remind_at
  end
where key = :key

-- open_alarms_of_app(app) --
-- Candidates for being resolved.
select key, last_at from wakeful_alarm where app = :app and state <> 'resolved' order by key

-- list_alarms(state, most) --
select key, app, state, text, count, opened_at, last_at, agent, owner, incident, loud, told, told_at, tell_at, acknowledged_at,
  acknowledged_by, note, muted_until, resolved_at, addressee as "to", remind_at, ending
from wakeful_alarm
where (cast(:state as text) is null or state = :state) order by last_at desc limit :most

-- find_alarm(key) --
select key, app, state, text, count, opened_at, last_at, agent, owner, incident, loud, told, told_at, tell_at, acknowledged_at,
  acknowledged_by, note, muted_until, resolved_at, addressee as "to", remind_at, ending
from wakeful_alarm where key = :key

-- operations_on_alarm(key) --
-- What people did about it, the latest first.
select replace(verb, 'alarm ', '') as verb, operator as by, detail as note, done_at as at from wakeful_operation
where target = :key and verb in ('alarm acknowledge', 'alarm mute', 'alarm resolve') order by seq desc limit 50

-- resolve_stuck(now, app) --
-- Alarms of runs that no longer run, or that another process has claimed since.
update wakeful_alarm
set state = 'resolved', last_at = {now}, resolved_at = {now}, tell_at = case when told > 0 then {now} end
where app = :app and state <> 'resolved' and substr(key, 1, 6) = 'stuck/'
  and not exists (
    select 1 from wakeful_run run
    where run.app = :app and run.state = 'running' and run.claimed_at <= wakeful_alarm.last_at
      and wakeful_alarm.key = 'stuck/' || run.app || '/' || run.agent || '/' || run.id
  )
