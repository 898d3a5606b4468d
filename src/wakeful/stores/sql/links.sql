-- Links: with which one person answers one approval, once.

-- insert_link(now, digest, app, approval, person, operator, proved, expires_at) --
insert into wakeful_link (digest, app, approval, person, made_at, made_by, made_proved, expires_at)
values (:digest, :app, :approval, :person, {now}, :operator, :proved, :expires_at)

-- forget_links(now, app, kept) --
-- Those that expired long ago. There is nothing left to say about them.
delete from wakeful_link where app = :app and expires_at < {now} - cast(:kept as bigint)

-- find_link(now, digest) --
-- With it: whether it is over, whether its person is still one of the app, and whether the app has people.
select link.digest, link.app, link.approval, link.person, link.expires_at, link.used_at,
  case when link.expires_at <= {now} then 1 else 0 end as expired,
  case when exists (select 1 from wakeful_person one where one.app = link.app and one.name = link.person) then 1 else 0 end as known,
  case when exists (select 1 from wakeful_person one where one.app = link.app) then 1 else 0 end as peopled,
  case when link.made_proved = 1 and link.made_by = link.person then 1 else 0 end as own
from wakeful_link link where link.digest = :digest

-- lock_link(digest) --
-- Two answers with one link come one after the other.
select digest from wakeful_link where digest = :digest {for_update}

-- use_link(now, digest) --
update wakeful_link set used_at = {now} where digest = :digest and used_at is null returning digest
