-- People: which version of an app's people file is in force, who they are, and the hashes of their tokens.

-- people_in_force(app) --
select version, changed from wakeful_people where app = :app and active = 1

-- people_seen(app, version) --
select version from wakeful_people where app = :app and version = :version

-- end_people(app, version) --
-- Before another version begins: only one is in force.
update wakeful_people set active = 0 where app = :app and active = 1 and version <> :version

-- apply_people(now, app, version, changed, operator) --
insert into wakeful_people (app, version, seen_at, applied_at, applied_by, changed, active)
values (:app, :version, {now}, {now}, :operator, :changed, 1)
on conflict (app, version) do update
set active = 1, applied_at = excluded.applied_at, applied_by = excluded.applied_by, changed = excluded.changed

-- count_change_of_people(app) --
update wakeful_people set changed = changed + 1 where app = :app and active = 1

-- latest_change_of_people(app) --
select coalesce(max(changed), 0) from wakeful_people where app = :app

-- people_of_app(app) --
-- The people who may answer: see wakeful.policy.approvers.
select name, groups, away_until, instead from wakeful_person where app = :app order by name

-- tokens_of_people(app) --
select name, token_env, token_salt, token_hash from wakeful_person where app = :app order by name

-- personal_tokens() --
-- Of all apps: a command gives a token and does not know yet for which app.
select app, name, token_salt, token_hash from wakeful_person where token_hash is not null order by app, name

-- remove_people(app) --
delete from wakeful_person where app = :app

-- insert_person(app, name, groups, away_until, instead, token_env, token_salt, token_hash) --
insert into wakeful_person (app, name, groups, away_until, instead, token_env, token_salt, token_hash)
values (:app, :name, :groups, :away_until, :instead, :token_env, :token_salt, :token_hash)

-- enter_token(app, name, token_salt, token_hash) --
update wakeful_person set token_salt = :token_salt, token_hash = :token_hash where app = :app and name = :name

-- list_people(now, app) --
select app, name, groups, away_until, instead, token_env,
  case when token_hash is null then 0 else 1 end as token,
  case when away_until > {now} then 1 else 0 end as away
from wakeful_person where cast(:app as text) is null or app = :app order by app, name
