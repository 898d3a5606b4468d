-- Grants: a person says yes in advance to effects that a rule would ask about, for a time and a number of uses.
create table wakeful_grant (
  id text not null,
  app text not null,
  agent text not null,                    -- '': any agent
  action text not null,                   -- '': any action
  condition text,                         -- CEL; null: none
  expires_at bigint not null,
  most bigint not null,
  used bigint not null default 0,
  granted_at bigint not null,
  granted_by text not null,
  note text,
  revoked_at bigint,
  revoked_by text,
  primary key (id),
  check (agent <> '' or action <> '')
);
create index wakeful_grant_live on wakeful_grant (app, expires_at) where revoked_at is null;

-- Each effect counts once for a grant, however often it is called.
create table wakeful_grant_use (
  grant_id text not null,
  effect_id text not null,
  used_at bigint not null,
  primary key (grant_id, effect_id)
);
