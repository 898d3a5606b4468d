-- Which code serves each agent, and in which order it came; and how a process is seen to be gone before its lease ends.

-- The versions of an agent's code that processes brought along. `place` is the order in which they were put to work, and rises
-- when one that nobody served any more is put to work again: a rollback is a deployment as any other.
create table wakeful_version (
  app text not null,
  agent text not null,
  version text not null,
  first bigint not null,                 -- its place when it was first seen
  place bigint not null,                 -- its place when it was put to work last
  since bigint not null,                 -- when that was
  primary key (app, agent, version)
);
alter table wakeful_process add column versions text; -- JSON: the version of each agent that it serves
-- 1: other code was put to work after it came. A claim looks closer then.
alter table wakeful_process add column behind bigint not null default 0;

-- The advisory lock that its lease connection holds, and the server that gave it (by when that was started): while somebody has
-- it, the process is connected. Empty: it lives by its lease alone.
alter table wakeful_process add column guard bigint;
alter table wakeful_process add column guard_server bigint;
