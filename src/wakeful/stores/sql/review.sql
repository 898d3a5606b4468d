-- Outputs that a person returns or edits.

-- output_to_return(seq) --
-- The output that a run holds; no row: it holds none.
select seq, output from wakeful_run where seq = :seq and state = 'held' and outcome is not null and committed_at is null

-- count_remarks(run_seq) --
select cast(:run_seq as bigint), count(*) from wakeful_step
where run_seq = :run_seq and state = 'fact' and key like 'remark %'

-- end_round(run_seq) --
-- Positions below 0 are those of earlier rounds; -1 is free for the remark that begins the next one.
update wakeful_step
set position = position - 2 - (select max(last.position) from wakeful_step last where last.run_seq = :run_seq)
where run_seq = :run_seq

-- insert_remark(now, run_seq, key, result) --
insert into wakeful_step (run_seq, key, name, state, position, tries, attempt, result, started_at, finished_at)
values (:run_seq, :key, :key, 'fact', -1, 1, 1, :result, {now}, {now})

-- output_to_edit(seq) --
select seq, id, root, app, token, output from wakeful_run where seq = :seq

-- edit_output(seq, output) --
update wakeful_run set output = :output where seq = :seq and state = 'held'

-- held_deliveries(run_seq) --
select id, channel, message, subject, position from wakeful_delivery where run_seq = :run_seq and state = 'held' order by position, seq

-- edit_delivery(id, message) --
update wakeful_delivery set message = :message where id = :id and state = 'held'

-- discard_delivery(now, id, reason) --
update wakeful_delivery set state = 'discarded', reason = :reason, settled_at = {now} where id = :id and state = 'held'

-- insert_held_delivery(now, id, run_seq, app, channel, message, position) --
-- The output was None, which is not delivered; the edited one is.
insert into wakeful_delivery (id, run_seq, app, channel, state, message, position, due_at, created_at)
values (:id, :run_seq, :app, :channel, 'held', :message, :position, {now}, {now})

-- What waits for a person. Each query is a walk along an index, in the order of the deadline; what has none counts as due since it began
-- to wait. `at` and `id` are those of the last one seen.

-- approvals_to_review(at, id, app, agent, most) --
select coalesce(approval.due_at, approval.asked_at), approval.id, approval.app, approval.agent, run.id, approval.asked_at,
  approval.due_at, approval.question, approval.schema
from wakeful_approval approval join wakeful_run run on run.seq = approval.run_seq
where approval.state = 'open' and coalesce(approval.due_at, approval.asked_at) >= :at
  and (coalesce(approval.due_at, approval.asked_at) > :at or approval.id > :id)
  and (cast(:app as text) is null or approval.app = :app) and (cast(:agent as text) is null or approval.agent = :agent)
order by coalesce(approval.due_at, approval.asked_at), approval.id limit :most

-- effects_to_review(at, id, app, agent, most) --
select effect.opened_at, effect.id, effect.app, effect.agent, run.id, effect.opened_at, null, effect.reason, effect.action,
  effect.arguments
from wakeful_effect effect join wakeful_run run on run.seq = effect.run_seq
where effect.state = 'held' and effect.opened_at >= :at and (effect.opened_at > :at or effect.id > :id)
  and (cast(:app as text) is null or effect.app = :app) and (cast(:agent as text) is null or effect.agent = :agent)
order by effect.opened_at, effect.id limit :most

-- outputs_to_review(at, id, app, agent, most) --
select coalesce(run.held_at, run.started_at, run.created_at), run.id, run.app, run.agent, run.id,
  coalesce(run.held_at, run.started_at, run.created_at), null, run.reason
from wakeful_run run
where run.state = 'held' and run.outcome is not null and run.committed_at is null
  and coalesce(run.held_at, run.started_at, run.created_at) >= :at
  and (coalesce(run.held_at, run.started_at, run.created_at) > :at or run.id > :id)
  and (cast(:app as text) is null or run.app = :app) and (cast(:agent as text) is null or run.agent = :agent)
order by coalesce(run.held_at, run.started_at, run.created_at), run.id limit :most

-- runs_to_review(at, id, app, agent, most) --
-- Held for their code, or for tampering. One that is held for an effect by now is shown with that. The offset keeps PostgreSQL from
-- reading all effects once, instead of looking up those of a page.
select run.held_at, run.id, run.app, run.agent, run.id, run.held_at, null, run.reason
from wakeful_run run
where run.state = 'held' and run.outcome is null and run.held_at is not null
  and run.held_at >= :at and (run.held_at > :at or run.id > :id)
  and (cast(:app as text) is null or run.app = :app) and (cast(:agent as text) is null or run.agent = :agent)
  and not exists
    (select 1 from wakeful_effect effect where effect.root = run.root and effect.state || '' = 'held' limit 1 offset 0)
order by run.held_at, run.id limit :most

-- deliveries_to_review(at, id, app, agent, most) --
-- They may have arrived, and their channel repeats nothing in doubt.
select delivery.doubt_at, delivery.id, delivery.app, run.agent, run.id, delivery.doubt_at, null, delivery.reason, delivery.channel
from wakeful_delivery delivery join wakeful_run run on run.seq = delivery.run_seq
where delivery.state = 'unknown' and delivery.doubt_at >= :at and (delivery.doubt_at > :at or delivery.id > :id)
  and (cast(:app as text) is null or delivery.app = :app) and (cast(:agent as text) is null or run.agent = :agent)
order by delivery.doubt_at, delivery.id limit :most
