-- What must differ on PostgreSQL for pauses and limits, each with its reason.

-- fence_to_claim(now, process, app) --
-- differs: exists only here. The fence of a claim, which also passes the gate of its app: many may pass at once, but not while
-- somebody pauses it, and whoever wants to pause waits until all that have passed are done. What a claim reads after this is
-- true until its commit. An advisory lock, because it is fair: readers of a row could keep a writer waiting for ever.
select id, lease_until > {now}, pg_advisory_xact_lock_shared(hashtextextended('wakeful pause ' || cast(:app as text), 0))
from wakeful_process where id = :process and state = 'alive' for key share

-- pass_gate(app) --
-- differs: exists only here. As fence_to_claim, where the fence is another one.
select pg_advisory_xact_lock_shared(hashtextextended('wakeful pause ' || cast(:app as text), 0))

-- shut_gate(app) --
-- differs: exists only here. Waits until no claim of this app is under way, and lets none begin before the commit.
select pg_advisory_xact_lock(hashtextextended('wakeful pause ' || cast(:app as text), 0))

-- claim_facts(now, app) --
-- differs: `state || ''` keeps the planner from walking over all that is due.
select agent, 'solo', cast(null as text) from (
  select distinct agent from wakeful_run
  where app = :app and state || '' in ('ready', 'waiting') and crashes >= 2 and due_at <= {now}
) as dangerous
union all
select agent, case when paused = 1 then 'paused' else 'rate' end, rate from wakeful_pause
where app = :app and (paused = 1 or rate is not null)
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
-- differs: each statement here has a time of its own. What became due after the claim looked, and before this does, would be
-- seen by neither: so this counts from the beginning of the transaction, and what comes out may be below zero.
select min(due_at) - {now} from wakeful_run
where app = :app and agent = :agent and state in ('ready', 'waiting')
  and due_at > coalesce(cast(:now as bigint), cast(extract(epoch from transaction_timestamp()) * 1000000 as bigint))
