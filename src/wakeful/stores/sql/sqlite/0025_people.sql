-- People: the versions of an app's people file, and the people of the version in force.
create table wakeful_people (
  app text not null,
  version text not null,                  -- digest of the text
  seen_at integer not null,               -- when the store saw this text first
  applied_at integer not null,            -- when it was last put in force
  applied_by text not null,
  changed integer not null,               -- counted up with each change, also of a token: processes read the people again
  active integer not null check (active in (0, 1)),
  primary key (app, version)
) strict, without rowid;
create unique index wakeful_people_active on wakeful_people (app) where active = 1;

create table wakeful_person (
  app text not null,
  name text not null,
  groups text not null,                   -- JSON: [name, …]
  away_until integer,
  instead text,                           -- who answers while this person is away
  token_env text,                         -- the environment variable with the token; the token itself is not stored
  token_salt text,
  token_hash text,                        -- null: no process had this variable yet
  primary key (app, name)
) strict, without rowid;

-- Whether the operator's name was proved by a personal token. 0: the name is only claimed, or a version stored it that did not say.
alter table wakeful_operation add column proved integer not null default 0;

-- Links with which one person answers one approval, once. Of the token in a link only the digest is stored.
create table wakeful_link (
  digest text not null primary key,
  app text not null,
  approval text not null,                 -- id of the approval
  person text not null,
  made_at integer not null,
  made_by text not null,
  made_proved integer not null,           -- whether the name of the maker was proved
  expires_at integer not null,
  used_at integer
) strict, without rowid;
create index wakeful_link_expires on wakeful_link (app, expires_at);
