-- What only PostgreSQL is asked before a migration.

-- table_sizes(tables) --
-- Rows and bytes, roughly: as the server counted them last.
select relname, cast(greatest(reltuples, 0) as bigint), pg_total_relation_size(pg_class.oid) from pg_class
where pg_class.oid in (select to_regclass(name) from unnest(cast(:tables as text[])) as name)

-- lacking_rights(tables, rights) --
-- Of tables and what a role must be allowed with each, side by side: what it is not.
select name, granted from unnest(cast(:tables as text[]), cast(:rights as text[])) as wanted (name, granted)
where to_regclass(name) is not null and not has_table_privilege(to_regclass(name), granted)

-- here() --
-- Which database and schema the tables are in, and who we are.
select current_database(), coalesce(current_schema(), 'public'), current_user

-- writers_of_runs() --
-- Roles that were let in, beside the owner.
select distinct pg_get_userbyid(entry.grantee) from pg_class table_of_runs, aclexplode(table_of_runs.relacl) entry
where table_of_runs.oid = to_regclass('wakeful_run') and entry.privilege_type = 'INSERT'
  and entry.grantee not in (0, table_of_runs.relowner)
