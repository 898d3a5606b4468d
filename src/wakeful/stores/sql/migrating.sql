-- The ledger of migrations.

-- applied_migrations() --
select number, name from wakeful_migration order by number

-- record_migration(now, number, name) --
insert into wakeful_migration (number, name, applied_at) values (:number, :name, {now})

-- migration_ledger() --
-- Each migration with its details; at the end the half-done ones.
select migration.number, migration.name, detail.digest, detail.needs, 1 from wakeful_migration migration
left join wakeful_migration_detail detail on detail.number = migration.number
union all
select number, name, digest, needs, 0 from wakeful_migration_detail where finished_at is null
order by 1

-- begin_migration(number, name, digest, needs) --
insert into wakeful_migration_detail (number, name, digest, needs) values (:number, :name, :digest, :needs)

-- finish_migration(now, number) --
update wakeful_migration_detail set finished_at = {now} where number = :number

-- older_processes(now, needs) --
-- Living processes whose code does not know a migration. Processes that do not say what they know are older than that column.
select id, host, pid, coalesce(knows, 7) from wakeful_process
where state = 'alive' and lease_until > {now} and coalesce(knows, 7) < :needs order by id
