-- Deploys: which code is at work, and what is known of each migration.

-- A migration that takes something away waits for the processes that still use it.
alter table wakeful_process add column knows integer; -- the last migration that its code knows; null: older than this column

-- Beside wakeful_migration, which older versions read and write. It is there before the first migration is recorded, so this is
-- only where to read of it.
create table if not exists wakeful_migration_detail (
  number bigint primary key,
  name text not null,
  digest text not null,                   -- of the text that was applied
  needs bigint not null,                  -- the lowest migration that code must know to work with this one; 0: any code does
  finished_at bigint                      -- null: half done, its indexes are still being built
);
