-- Deploys and restores: which code is at work, what is known of each migration, and where the store has been.

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

-- Where this store has been: one row for each server or file that it was found on. Numbers of transactions mean something only
-- within one of them, so what is compared by these is first compared by this: from which event and run on did it count?
create table wakeful_origin (
  number integer primary key,               -- 0: the first
  identity text not null,                 -- PostgreSQL: the system identifier of the cluster; SQLite: the inode of the file
  place text,                             -- for people: the path of the file
  event_seq integer not null,               -- its events have this number or a higher one
  run_seq integer not null,
  began_in integer not null,                -- PostgreSQL: no transaction of it has a lower number
  doubtful integer not null default 0,      -- 1: processes were at work when the copy was made, so runs may have gone on elsewhere
  began_at integer not null
) strict;
create index wakeful_origin_run on wakeful_origin (run_seq, event_seq);
