-- Grants: what people allowed in advance, and the effects that used it.

-- grants_for(now, app, agent, action) --
-- Grants that may serve an effect, the first to expire first. The transaction that begins the effect looks again.
select id, condition from wakeful_grant
where app = :app and revoked_at is null and expires_at > {now}
  and agent in ('', cast(:agent as text)) and action in ('', cast(:action as text))
order by expires_at, id

-- lock_grant(now, id) --
-- Locked until the commit: two transactions count one after the other, and a revocation comes before or after both.
select id, granted_by, most - used, case when revoked_at is null and expires_at > {now} then 1 else 0 end
from wakeful_grant where id = :id {for_update}

-- use_of_grant(id, effect) --
select grant_id, effect_id from wakeful_grant_use where grant_id = :id and effect_id = :effect

-- insert_grant_use(now, id, effect) --
insert into wakeful_grant_use (grant_id, effect_id, used_at) values (:id, :effect, {now})
on conflict (grant_id, effect_id) do nothing
returning grant_id, effect_id

-- count_grant_use(id) --
update wakeful_grant set used = used + 1 where id = :id

-- insert_grant(now, id, app, agent, action, condition, expires_at, most, operator, note) --
insert into wakeful_grant (id, app, agent, action, condition, expires_at, most, granted_at, granted_by, note)
values (:id, :app, :agent, :action, :condition, :expires_at, :most, {now}, :operator, :note)
on conflict (id) do nothing
returning id

-- revoke_grant(now, id, operator) --
update wakeful_grant set revoked_at = {now}, revoked_by = :operator where id = :id and revoked_at is null
returning app

-- list_grants(now, app, whole) --
-- Live ones, the first to expire first; with `whole` those that are over, too.
select id, app, nullif(agent, '') as agent, nullif(action, '') as action, condition as "where",
  case when revoked_at is not null then 'revoked' when expires_at <= {now} then 'expired' when used >= most then 'used-up'
    else 'live' end as state,
  expires_at as until, most, used, granted_at, granted_by as "by", note, revoked_at, revoked_by
from wakeful_grant
where (cast(:app as text) is null or app = :app)
  and (cast(:whole as bigint) = 1 or (revoked_at is null and expires_at > {now} and used < most))
order by expires_at, id

-- find_grants(now, id, upper) --
select id, app, nullif(agent, '') as agent, nullif(action, '') as action, condition as "where",
  case when revoked_at is not null then 'revoked' when expires_at <= {now} then 'expired' when used >= most then 'used-up'
    else 'live' end as state,
  expires_at as until, most, used, granted_at, granted_by as "by", note, revoked_at, revoked_by
from wakeful_grant where id >= :id and id < :upper order by id limit 2

-- uses_of_grant(id, most) --
-- The last effects that used it.
select used.effect_id as effect, effect.action, effect.agent, run.id as run, used.used_at
from wakeful_grant_use used left join wakeful_effect effect on effect.id = used.effect_id
left join wakeful_run run on run.seq = effect.run_seq
where used.grant_id = :id order by used.used_at desc, used.effect_id limit :most
