-- Approvals of effects and of runs: the terms, votes, the yes that an effect needs, and what happens when time passes.

-- yeses_for_effect(now, effect_id) --
-- What people said yes to, as long as it is valid, with its terms. A yes is used up when its effect ends.
select effect_id, rule, digest, answered_by, answer, needed, approvers, kept_out, id, case when key like 'repeat %' then 1 else 0 end, {now}
from wakeful_approval
where effect_id = :effect_id and state = 'answered' and used_at is null
  and answered_at + coalesce(valid_for, 0) > {now}

-- open_approval_of_effect(effect_id) --
select effect_id, id, rule, digest, key, run_seq, needed, approvers, kept_out, editable from wakeful_approval
where effect_id = :effect_id and state = 'open' order by seq

-- count_asks(run_seq) --
-- How often a run has asked about effects. A replay begins anew: it clears these steps.
select cast(:run_seq as bigint), count(*) from wakeful_step where run_seq = :run_seq and key like 'approve %'
  and key in (select asked.key from wakeful_approval asked where asked.run_seq = :run_seq and asked.kind = 'effect')

-- open_effect_approval(now, id, run_seq, key, app, agent, question, asked_of, schema, within, rule, effect_id, action, arguments, digest, needed, approvers, kept_out, editable, valid_for, escalations, tend_after) --
-- The due time counts from now. An approval that was withdrawn, or that expired, with its run is asked again.
insert into wakeful_approval
  (id, app, agent, run_seq, key, question, asked_of, schema, state, asked_at, due_at, kind, rule, effect_id, action, arguments, digest,
  needed, approvers, kept_out, editable, valid_for, escalations, tend_at)
values (:id, :app, :agent, :run_seq, :key, :question, :asked_of, :schema, 'open', {now}, {now} + cast(:within as bigint), 'effect', :rule,
  :effect_id, :action, :arguments, :digest, :needed, :approvers, :kept_out, :editable, :valid_for, :escalations,
  {now} + cast(:tend_after as bigint))
on conflict (id) do update
set state = 'open', due_at = excluded.due_at, run_seq = excluded.run_seq, note = null, asked_at = excluded.asked_at, answer = null,
    answered_by = null, answered_at = null, used_at = null, arguments = excluded.arguments, digest = excluded.digest,
    needed = excluded.needed, approvers = excluded.approvers, kept_out = excluded.kept_out, editable = excluded.editable,
    valid_for = excluded.valid_for, escalations = excluded.escalations, tend_at = excluded.tend_at
where wakeful_approval.state in ('withdrawn', 'expired')

-- say_yes_to_repeat(now, id, key, question, schema, answer, operator, note, effect_id, digest, valid_for) --
-- A person who repeats an effect that a rule holds says yes to that rule, on the terms of the approval that it waited for.
insert into wakeful_approval
  (id, app, agent, run_seq, key, question, schema, state, answer, answered_by, note, asked_at, answered_at, kind, rule, effect_id, action,
  digest, valid_for, approvers, kept_out)
select :id, effect.app, effect.agent, effect.run_seq, :key, :question, :schema, 'answered', :answer, :operator, :note, {now}, {now}, 'effect',
  effect.rule, effect.id, effect.action, :digest, :valid_for, asked.approvers, asked.kept_out
from wakeful_effect effect left join wakeful_approval asked on asked.id = effect.approval and asked.rule = effect.rule
where effect.id = :effect_id
on conflict (id) do update
set answered_by = excluded.answered_by, answer = excluded.answer, note = excluded.note, answered_at = excluded.answered_at, used_at = null,
    digest = excluded.digest, run_seq = excluded.run_seq, approvers = excluded.approvers, kept_out = excluded.kept_out

-- vote_for_repeat(now, approval, voter, answer, proved, digest, note, effect_id) --
-- Whether the name of the person who repeats an effect is proved.
insert into wakeful_vote (app, approval, voter, answer, proved, digest, note, voted_at)
select app, :approval, :voter, :answer, :proved, :digest, :note, {now} from wakeful_effect where id = :effect_id
on conflict (approval, voter) do update
set answer = excluded.answer, proved = excluded.proved, digest = excluded.digest, note = excluded.note, voted_at = excluded.voted_at

-- set_effect_approval(id, approval) --
update wakeful_effect set approval = :approval where id = :id

-- set_executed(id, executed) --
-- The arguments that a person edited.
update wakeful_effect set executed = :executed where id = :id and state = 'waiting'

-- use_up_approvals(now, effect_id) --
update wakeful_approval set used_at = {now} where effect_id = :effect_id and used_at is null and state = 'answered'

-- use_up_approvals_of_run(now, run_seq) --
-- A replay asks anew, also about effects that have not ended.
update wakeful_approval set used_at = {now} where run_seq = :run_seq and kind = 'effect' and used_at is null and state = 'answered'

-- use_up_approvals_of_family(now, root) --
-- A further run of a family asks anew, also about an effect that an earlier one left.
update wakeful_approval set used_at = {now}
where kind = 'effect' and used_at is null and state = 'answered' and run_seq in (
  select seq from wakeful_run where id = :root union all select seq from wakeful_run where root = :root and id <> root)

-- lock_answer(id) --
-- Before the step: the same order in which an answer locks them.
select id, state, answer from wakeful_approval where id = :id {for_update}

-- lock_answers_about_effect(effect_id) --
select effect_id, id, key, rule, run_seq, state, answer from wakeful_approval
where effect_id = :effect_id and used_at is null and state in ('open', 'answered') order by id {for_update}

-- withdraw_approvals_of_effect(now, effect_id, id, note) --
-- All but the one given.
update wakeful_approval set state = 'withdrawn', note = :note, answered_at = {now}
where effect_id = :effect_id and state = 'open' and id <> :id
returning id, app, agent, run_seq, key

-- withdraw_approvals_about_effects(now, run_seq, note) --
-- Not the questions of the run: it finds them again.
update wakeful_approval set state = 'withdrawn', note = :note, answered_at = {now}
where run_seq = :run_seq and state = 'open' and kind = 'effect'
returning id, app, agent, run_seq, key

-- abandon_waiting(now, id, run_seq, token, reason, error, operator, note) --
update wakeful_effect
set state = 'abandoned', reason = :reason, error = :error, settled_by = :operator, note = :note, settled_at = {now}, due_at = null
where id = :id and state = 'waiting'
  and exists (select 1 from wakeful_run where seq = :run_seq and token = :token and state = 'running')
returning id

-- approval_terms(now, id) --
-- The row is locked: votes come one after the other.
select approval.id, approval.app, approval.agent, approval.run_seq, approval.key, approval.state, approval.answered_by, run.id, approval.kind,
  approval.digest, approval.needed, approval.approvers, approval.kept_out, approval.editable,
  case when approval.due_at <= {now} then 1 else 0 end, approval.rule, {now}, approval.policy
from wakeful_approval approval join wakeful_run run on run.seq = approval.run_seq where approval.id = :id
{for_update_of_approval}

-- cast_vote(now, app, approval, voter, answer, proved, digest, note) --
-- One person, one vote: a vote for what is asked now replaces one for other arguments.
insert into wakeful_vote (app, approval, voter, answer, proved, digest, note, voted_at)
values (:app, :approval, :voter, :answer, :proved, :digest, :note, {now})
on conflict (approval, voter) do update
set answer = excluded.answer, proved = excluded.proved, digest = excluded.digest, note = excluded.note, voted_at = excluded.voted_at
where wakeful_vote.digest <> excluded.digest
returning approval

-- votes_of(approval) --
select voter, answer, proved, digest, note, voted_at, approval from wakeful_vote where approval = :approval order by voted_at, voter

-- void_votes(approval) --
delete from wakeful_vote where approval = :approval

-- change_what_is_asked(now, id, arguments, digest, question, kept_out, note, state, answer, answered_by) --
-- A worker has checked edited arguments, or refused them.
update wakeful_approval
set arguments = coalesce(:arguments, arguments), digest = coalesce(:digest, digest), question = coalesce(:question, question), note = :note,
    kept_out = case when cast(:digest as text) is null then kept_out else :kept_out end,
    state = :state, answer = :answer, answered_by = :answered_by, answered_at = case when cast(:state as text) = 'answered' then {now} end
where id = :id and state = 'answered'

-- approvals_to_tend(now, app) --
-- Open approvals that are to be widened, or whose time is over. Times count from when it was asked.
select id, agent, run_seq, kind, question, approvers, escalations, asked_at, due_at, case when due_at <= {now} then 1 else 0 end, rule,
  (select owner from wakeful_alarm where wakeful_alarm.key = 'ask/' || wakeful_approval.app || '/' || wakeful_approval.agent || '/' || wakeful_approval.id)
from wakeful_approval where app = :app and state = 'open' and tend_at <= {now} order by id {for_update}

-- widen_approval(id, approvers, escalations, tend_at) --
update wakeful_approval set approvers = :approvers, escalations = :escalations, tend_at = :tend_at where id = :id and state = 'open'

-- expire_run_approval(id) --
-- Not if another policy is in force by now: the run is judged anew first, since perhaps no rule asks any more, or enough people said yes.
update wakeful_approval set state = 'expired', tend_at = null where id = :id and state = 'open'
  and coalesce(policy, '') = coalesce((select version from wakeful_policy where app = wakeful_approval.app and active = 1), '')
returning run_seq

-- runs_that_wait_for_approval(app) --
-- A new policy may answer otherwise: what waits is judged anew.
select distinct run_seq from wakeful_approval where app = :app and state = 'open' and kind = 'effect'

-- clear_approvals(run_seq) --
-- A replay asks anew. A user's step may be called "approve order", so that its key begins the same way: it stays.
delete from wakeful_step where run_seq = :run_seq and key like 'approve %'
  and key in (select asked.key from wakeful_approval asked where asked.run_seq = :run_seq and asked.kind = 'effect')

-- revive_refused(root, run_seq) --
-- A replay asks anew for staged effects that people refused.
update wakeful_effect set state = 'staged', reason = 'replayed', settled_at = null, settled_by = null, error = null, approval = null
where root = :root and run_seq = :run_seq and staged = 1 and state = 'abandoned' and approval is not null

-- answer_about_effect(id) --
select answered_by, question, asked_of, due_at, needed, rule, approvers, asked_at from wakeful_approval where id = :id

-- first_to_tend(now, app) --
select min(tend_at) - {now} from wakeful_approval where app = :app and state = 'open' and tend_at is not null

-- tell_alarm_again(now, key) --
update wakeful_alarm set tell_at = {now} where key = :key and state <> 'resolved'

-- remind_of_alarm(now, key, after) --
-- Once, after this time.
update wakeful_alarm set remind_at = {now} + cast(:after as bigint) where key = :key and state <> 'resolved'
