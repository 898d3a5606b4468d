-- Queries before a migration, on PostgreSQL only.

-- table_sizes(tables) --
-- Approximate rows and bytes, from the server's last statistics.
select relname, cast(greatest(reltuples, 0) as bigint), pg_total_relation_size(pg_class.oid) from pg_class
where pg_class.oid in (select to_regclass(name) from unnest(cast(:tables as text[])) as name)

-- lacking_rights(tables, rights) --
-- Given tables and rights in parallel: the rights that this role does not have.
select name, granted from unnest(cast(:tables as text[]), cast(:rights as text[])) as wanted (name, granted)
where to_regclass(name) is not null and not has_table_privilege(to_regclass(name), granted)

-- here() --
-- The database and schema of the tables, and our own role.
select current_database(), coalesce(current_schema(), 'public'), current_user

-- writers_of_runs() --
-- Roles other than the owner that may write runs.
select distinct pg_get_userbyid(entry.grantee) from pg_class table_of_runs, aclexplode(table_of_runs.relacl) entry
where table_of_runs.oid = to_regclass('wakeful_run') and entry.privilege_type = 'INSERT'
  and entry.grantee not in (0, table_of_runs.relowner)
