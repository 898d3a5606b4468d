-- Queries about pauses and limits that must differ on PostgreSQL, each with the reason.

-- fence_to_claim(now, process, app) --
-- differs: exists only here. The fence of a claim, which also passes the gate of its app. Many claims may pass at once, but not during a
-- pause or halt of the app; a transaction that pauses waits until all claims that have passed are finished. So facts that a claim reads
-- after this stay true until its commit. An advisory lock, because it is fair: readers of a row could keep a writer waiting forever.
select id, lease_until > {now}, pg_advisory_xact_lock_shared(hashtextextended('wakeful pause ' || cast(:app as text), 0))
from wakeful_process where id = :process and state = 'alive' for key share

-- pass_gate(app) --
-- differs: exists only here. As fence_to_claim, for a transaction with another fence.
select pg_advisory_xact_lock_shared(hashtextextended('wakeful pause ' || cast(:app as text), 0))

-- shut_gate(app) --
-- differs: exists only here. Waits until no claim of this app is in flight, and lets none begin before the commit.
select pg_advisory_xact_lock(hashtextextended('wakeful pause ' || cast(:app as text), 0))

-- claim_facts(now, app) --
-- differs: `state || ''` keeps the planner from walking all due runs.
select agent, 'solo', cast(null as text) from (
  select distinct agent from wakeful_run
  where app = :app and state || '' in ('ready', 'waiting') and crashes >= 2 and due_at <= {now}
) as dangerous
union all
select agent, case when paused = 1 then 'paused' else 'rate' end, rate from wakeful_pause
where app = :app and (paused = 1 or rate is not null)
union all
select agent, 'halted', null from wakeful_halt where app = :app and action = ''
union all
select agent, 'failing', null from wakeful_failing where app = :app
union all
select '', 'versions', null from wakeful_process where app = :app and state = 'alive' and versions is not null
group by app having min(versions) <> max(versions) or max(behind) = 1

-- claim_resumed(now, app, agent, most, process, version) --
-- differs: as claim_runs.
update wakeful_run
set state = 'running', reason = null, owner = :process, token = token + 1,
    started_at = coalesce(started_at, {now}), claimed_at = {now}, version = coalesce(version, :version)
where seq = any(array(
  select seq from wakeful_run
  where app = :app and agent = :agent and state in ('ready', 'waiting') and token > 0 and due_at + 0 <= {now} and crashes < 2 {apart}
  order by due_at + 0
  limit :most
  {skip_locked}
))
returning {claimed}

-- next_due(now, app, agent) --
-- differs: each statement has a time of its own here. A run that becomes due between the claim and this statement would be seen by
-- neither. So this counts from the beginning of the transaction, and the result may be negative.
select min(due_at) - {now} from wakeful_run
where app = :app and agent = :agent and state in ('ready', 'waiting')
  and due_at > coalesce(cast(:now as bigint), cast(extract(epoch from transaction_timestamp()) * 1000000 as bigint))
