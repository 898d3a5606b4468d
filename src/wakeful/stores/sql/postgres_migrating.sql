-- What only PostgreSQL is asked before a migration.

-- table_sizes(tables) --
-- Rows and bytes, roughly: as the server counted them last.
select relname, cast(greatest(reltuples, 0) as bigint), pg_total_relation_size(pg_class.oid) from pg_class
where pg_class.oid in (select to_regclass(name) from unnest(cast(:tables as text[])) as name)
