-- Queries for showing sources that must differ on PostgreSQL.

-- sources_to_judge(now, app) --
-- differs: `offset 0` keeps the subquery separate, so that each process is looked up by its id; a join may walk all processes.
select source.name, source.kind, source.state, source.read_at, process.host, process.pid, process.state,
  process.lease_until - {now}, source.owner
from wakeful_source source
left join lateral (
  select host, pid, state, lease_until from wakeful_process where id = source.holder offset 0
) process on true
where source.app = :app and source.holder is not null
