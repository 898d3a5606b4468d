-- What actions return, which results people have given, and runs that are undone because they failed.
create table wakeful_action (
  app text not null,
  reference text not null,                -- module:name, as in wakeful_effect
  name text not null,
  returns text,                           -- the JSON schema of its result; null: anything
  declared_at bigint not null,
  primary key (app, reference)
);

-- A digest of what the family of its run had stored when a person confirmed it: as long as that is all, the result can be corrected.
alter table wakeful_effect add column stored_before text;
-- JSON: the error and the reason with which a run ends once what it did is undone.
alter table wakeful_run add column failed_with text;
