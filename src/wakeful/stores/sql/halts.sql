-- Halts: what people halted, and the runs that wait until it is lifted.

-- standing_of_app(app) --
-- What an effect of this app must agree with: the version of the policy in force, and the halts.
select app, 'policy', version, cast(null as text) from wakeful_policy where app = :app and active = 1
union all
select app, 'halt', agent, action from wakeful_halt where app = :app

-- find_halt(app, agent, action) --
select operator, note from wakeful_halt where app = :app and agent = :agent and action = :action

-- insert_halt(now, app, agent, action, operator, note) --
insert into wakeful_halt (app, agent, action, operator, note, halted_at)
values (:app, :agent, :action, :operator, :note, {now})

-- lift_halt(app, agent, action) --
-- Waits for runs that are being parked for it, so that none of them is missed.
delete from wakeful_halt where app = :app and agent = :agent and action = :action

-- halt_stands(app, agent, action) --
-- For a run that is about to be parked: until its commit, no other transaction can lift the halt and miss this run.
select app, agent, action from wakeful_halt where app = :app and agent = :agent and action = :action {for_key_share}

-- note_halted(seq, token, name) --
update wakeful_run set halted_for = :name where seq = :seq and token = :token and state = 'parked'

-- unpark_halted(now, app, name, reason) --
-- The halt is lifted. The time they were parked does not count for their deadline.
update wakeful_run
set state = 'ready', reason = :reason, halted_for = null, due_at = {now},
    started_at = started_at + ({now} - coalesce(due_at, {now}))
where app = :app and halted_for = :name and state = 'parked'
returning app, agent

-- calls_under_way(app, agent, action) --
-- Calls of actions that have begun and are not over. Calls of Wakeful's own agents go on.
select run.id, effect.agent, effect.action, effect.id, coalesce(effect.called_at, effect.opened_at)
from wakeful_effect effect join wakeful_run run on run.seq = effect.run_seq
where effect.state = 'intent' and effect.app = :app and run.state = 'running' and substr(effect.agent, 1, 8) <> 'wakeful.'
  and cast(:agent as text) in ('', effect.agent)
  and cast(:action as text) in ('', case when effect.undoes is null then effect.action else substr(effect.action, 6) end)
order by effect.seq

-- deliveries_under_way(now, app, agent) --
-- Channels that a process is delivering to, each with how many due deliveries may be among those that it has taken.
select delivery.channel, count(*)
from wakeful_lane lane
join wakeful_delivery delivery on delivery.app = lane.app and delivery.channel = replace(lane.channel, '!', '')
  and delivery.state = 'pending' and delivery.urgent = case when lane.channel like '%!' then 1 else 0 end
join wakeful_run run on run.seq = delivery.run_seq
where lane.app = :app and lane.owner is not null and delivery.due_at <= {now} and substr(run.agent, 1, 8) <> 'wakeful.'
  and cast(:agent as text) in ('', run.agent)
group by delivery.channel order by delivery.channel

-- claim_to_undo(now, app, agent, most, process, version) --
-- Of a halted agent: only runs that a person cancelled, whose effects are to be undone.
with candidate as materialized (
  select seq from wakeful_run
  where app = :app and agent = :agent and state in ('ready', 'waiting') and due_at <= {now} and crashes < 2
    and cancel_at is not null and cancel_by not in ('on_failure="undo"', 'on_stuck="cancel"', 'overlap="replace"')
    and cancel_by not like 'run %, which failed' {apart}
  order by due_at
  limit :most
)
update wakeful_run
set state = 'running', reason = null, owner = :process, token = token + 1,
    started_at = coalesce(started_at, {now}), claimed_at = {now}, version = coalesce(version, :version)
where seq in (select seq from candidate)
returning {claimed}

-- list_halts() --
select halt.app, nullif(halt.agent, '') as agent, nullif(halt.action, '') as action, halt.operator as "by", halt.note,
  halt.halted_at as since,
  (select count(*) from wakeful_run run where run.app = halt.app and run.state = 'parked' and run.halted_for =
    case when halt.action <> '' then 'action ' || halt.action when halt.agent <> '' then 'agent ' || halt.agent else 'all' end) as parked
from wakeful_halt halt order by halt.app, halt.action, halt.agent

-- known_actions() --
-- Actions that have been used here, with their apps.
select distinct app, name from wakeful_action order by name

-- apps_of_action(action) --
-- Apps that have used this action, or have staged it.
select app from wakeful_action where name = :action
union
select app from (select app from wakeful_effect where action = :action limit 1) as used

-- halts_of_app(app) --
select agent, operator from wakeful_halt where app = :app and action = ''
