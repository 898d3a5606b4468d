-- Policy's stored decisions, with the event and the run that each is about. A row of an older version has no app and no place, or the mode `enforce`.

-- page_of_decisions(after, most, rule, answer, agent, app, since) --
-- Newest first; `after` is the seq of the last one seen. Seqs rise with time, except for processes that commit at almost the same
-- time. So the walk ends a minute before `since`, and does not read on to the first decision.
select decision.seq, cast(decision.seq as text) as id, coalesce(decision.app, run.app, event.app) as app, decision.agent,
  decision.place, decision.answer, decision.rule, decision.version, decision.reason, nullif(decision.mode, 'enforce') as mode, decision.action,
  decision.effect_id as effect, event.id as event, coalesce(run.id, admission.run_id) as run, decision.decided_at
from wakeful_decision decision
left join wakeful_event event on event.seq = decision.event_seq
left join wakeful_run run on run.seq = decision.run_seq
left join wakeful_admission admission
  on decision.run_seq is null and admission.event_seq = decision.event_seq and admission.agent = decision.agent
where decision.seq < coalesce(cast(:after as bigint), 9223372036854775807)
  and decision.seq >= coalesce(
    (select early.seq from wakeful_decision early
     where early.decided_at >= cast(:since as bigint) - 60000000 order by early.decided_at limit 1),
    case when cast(:since as bigint) is null then 0 else 9223372036854775807 end
  )
  and (cast(:since as bigint) is null or decision.decided_at >= :since)
  and (cast(:rule as text) is null or decision.rule = :rule)
  and (cast(:answer as text) is null or decision.answer = :answer)
  and (cast(:agent as text) is null or decision.agent = :agent)
  and (cast(:app as text) is null or coalesce(decision.app, run.app, event.app) = :app)
order by decision.seq desc limit :most

-- find_decision(seq) --
select cast(decision.seq as text) as id, coalesce(decision.app, run.app, event.app) as app, decision.agent,
  decision.place, decision.answer, decision.rule, decision.version, decision.reason, nullif(decision.mode, 'enforce') as mode, decision.action,
  decision.effect_id as effect, event.id as event, coalesce(run.id, admission.run_id) as run, decision.decided_at
from wakeful_decision decision
left join wakeful_event event on event.seq = decision.event_seq
left join wakeful_run run on run.seq = decision.run_seq
left join wakeful_admission admission
  on decision.run_seq is null and admission.event_seq = decision.event_seq and admission.agent = decision.agent
where decision.seq = :seq
