-- Policy: which text is in force, which texts were applied before, and the uses of counted rules.

-- policy_in_force(app) --
select app, version from wakeful_policy where app = :app and active = 1

-- policy_text(app, version) --
select texts from wakeful_policy where app = :app and version = :version

-- end_policy(app, version) --
-- Before another one begins: only one is in force.
update wakeful_policy set active = 0 where app = :app and active = 1 and version <> :version

-- apply_policy(now, app, version, texts, operator) --
insert into wakeful_policy (app, version, texts, seen_at, applied_at, applied_by, active)
values (:app, :version, :texts, {now}, {now}, :operator, 1)
on conflict (app, version) do update set active = 1, applied_at = excluded.applied_at, applied_by = excluded.applied_by

-- list_policies(app) --
select app, version, active, seen_at, applied_at, applied_by as "by" from wakeful_policy
where cast(:app as text) is null or app = :app order by app, applied_at desc, version

-- lock_policy_counter(app, rule, subject) --
-- Two transactions count one after the other. An update that changes nothing locks the row.
insert into wakeful_policy_counter (app, rule, subject) values (:app, :rule, :subject)
on conflict (app, rule, subject) do update set rule = excluded.rule

-- uses_of_rule(now, app, rule, subject, within) --
select app, rule, subject, use from wakeful_policy_use
where app = :app and rule = :rule and subject = :subject and used_at > {now} - cast(:within as bigint)

-- forget_uses_of_rule(now, app, rule, subject, within) --
delete from wakeful_policy_use
where app = :app and rule = :rule and subject = :subject and used_at <= {now} - cast(:within as bigint)

-- note_use_of_rule(now, app, rule, subject, use) --
insert into wakeful_policy_use (app, rule, subject, use, used_at) values (:app, :rule, :subject, :use, {now})
on conflict (app, rule, subject, use) do nothing

-- old_uses_of_rules(app, before, most) --
-- Uses that no rule counts any more. The next use of the same subject forgets them; a subject that does not come back keeps them until here.
select rule, subject, use from wakeful_policy_use where app = :app and used_at < :before order by used_at limit :most

-- remove_use_of_rule(app, rule, subject, use, before) --
delete from wakeful_policy_use where app = :app and rule = :rule and subject = :subject and use = :use and used_at < :before

-- unused_counters(app, most) --
-- Rows that are only there to be locked.
select counter.rule, counter.subject from wakeful_policy_counter counter
where counter.app = :app and not exists (
    select 1 from wakeful_policy_use used where used.app = counter.app and used.rule = counter.rule and used.subject = counter.subject)
order by counter.rule, counter.subject limit :most

-- remove_counter(app, rule, subject) --
-- A transaction that counts at this moment makes it anew.
delete from wakeful_policy_counter where app = :app and rule = :rule and subject = :subject

-- hold_new_run(id, reason) --
-- Policy wants a person to decide whether this run begins. It was inserted by the same transaction.
update wakeful_run set state = 'held', reason = :reason where id = :id and state = 'ready' and token = 0
returning seq, id

-- open_run_approval(now, id, run_seq, key, app, agent, question, schema, rule, asked_of, within, digest, needed, approvers, kept_out, escalations, tend_after, policy) --
-- Without `within` it waits without an end.
insert into wakeful_approval
  (id, app, agent, run_seq, key, question, schema, state, asked_at, kind, rule, asked_of, due_at, digest, needed, approvers, kept_out,
  escalations, tend_at, policy)
values (:id, :app, :agent, :run_seq, :key, :question, :schema, 'open', {now}, 'run', :rule, :asked_of, {now} + cast(:within as bigint),
  :digest, :needed, :approvers, :kept_out, :escalations, {now} + cast(:tend_after as bigint), :policy)
on conflict (id) do nothing

-- begin_held_run(now, seq) --
-- A person said yes, and no rule wants a further one. A run with a place becomes due when its turn comes.
update wakeful_run set state = 'ready', reason = null, due_at = case when place is null then {now} end
where seq = :seq and state = 'held' and token = 0
  and not exists (select 1 from wakeful_approval asked where asked.run_seq = :seq and asked.state = 'open' and asked.kind = 'run')
returning app, agent, id

-- deny_held_run(now, seq, reason, outcome) --
-- A person said no.
update wakeful_run set state = 'denied', reason = :reason, outcome = :outcome, due_at = null, finished_at = {now}
where seq = :seq and state = 'held' and token = 0
returning app, agent, id

-- held_runs_to_judge(app, version, after, most) --
-- Runs that wait to begin, and that were judged by another version than this one: three ranges of an index, because it is asked every
-- second. `after` is the seq of the last one seen.
select run.seq, run.id, run.agent, event.seq as event_seq, event.id as event, event.type, event.key, event.envelope
from (
  select run_seq from wakeful_approval
  where app = :app and state = 'open' and kind = 'run' and run_seq > :after and policy is null
  union
  select run_seq from wakeful_approval
  where app = :app and state = 'open' and kind = 'run' and run_seq > :after and policy < :version
  union
  select run_seq from wakeful_approval
  where app = :app and state = 'open' and kind = 'run' and run_seq > :after and policy > :version
  order by run_seq limit :most
) asked
join wakeful_run run on run.seq = asked.run_seq
join wakeful_event event on event.seq = run.event_seq
order by run.seq

-- rounds_of_chain(app, chain, agent) --
-- Counts none.
select rounds from wakeful_chain where app = :app and chain = :chain and agent = :agent

-- lock_approvals_of_held(run_seq) --
-- In the order in which an answer locks them.
select run_seq, id, key, rule, state, answer, asked_at, due_at, digest, needed, approvers, kept_out, escalations, policy
from wakeful_approval where run_seq = :run_seq and kind = 'run' order by key {for_update}

-- withdraw_approval(now, id, note) --
update wakeful_approval set state = 'withdrawn', note = :note, answered_at = {now} where id = :id and state = 'open'

-- note_judged_anew(run_seq, policy) --
-- What is still open was judged by this version of the policy.
update wakeful_approval set policy = :policy where run_seq = :run_seq and state = 'open' and kind = 'run'

-- hold_anew(seq, reason) --
update wakeful_run set reason = :reason where seq = :seq and state = 'held' and token = 0

-- effect_to_judge(id) --
select {judged_effect} where effect.id = :id

-- effects_of_run_to_judge(root) --
-- Replays and forks of a run share its effects.
select {judged_effect} where effect.root = :root order by effect.position, effect.seq

-- effects_to_judge(app, since, after, most) --
-- Oldest first; `after` is the seq of the last one seen.
select {judged_effect}
where effect.seq > :after and effect.app = :app and effect.opened_at >= :since order by effect.seq limit :most

-- admissions_of_event(key) --
select event.seq, event.key, event.app, admission.agent, admission.state, admission.run_id as run, event.accepted_at, event.envelope
from wakeful_event event join wakeful_admission admission on admission.event_seq = event.seq
where event.key = :key order by admission.agent

-- admissions_to_judge(app, since, after, after_agent, most) --
-- Oldest first; `after` and `after_agent` are the event and the agent of the last one seen.
select event.seq, event.key, event.app, admission.agent, admission.state, admission.run_id as run, event.accepted_at, event.envelope
from wakeful_event event join wakeful_admission admission on admission.event_seq = event.seq
where (event.seq > :after or (event.seq = :after and admission.agent > :after_agent)) and event.seq >= :after
  and event.app = :app and event.accepted_at >= :since and event.state <> 'quarantined'
order by event.seq, admission.agent limit :most

-- denied_effects(key) --
-- Effects that policy denied: only the decision is stored, not the effect.
select decision.effect_id, decision.agent, decision.action, decision.rule, decision.version, decision.reason, run.root
from wakeful_event event join wakeful_decision decision on decision.event_seq = event.seq
join wakeful_run run on run.seq = decision.run_seq
where event.key = :key and decision.effect_id is not null and decision.answer = 'deny' and coalesce(decision.mode, 'enforce') = 'enforce'
  and not exists (select 1 from wakeful_effect effect where effect.id = decision.effect_id)
order by decision.seq

-- count_denied_effects(app, since) --
select count(distinct decision.effect_id) from wakeful_decision decision
where decision.decided_at >= :since and decision.app = :app and decision.answer = 'deny'
  and coalesce(decision.mode, 'enforce') = 'enforce'
  and not exists (select 1 from wakeful_effect effect where effect.id = decision.effect_id)
