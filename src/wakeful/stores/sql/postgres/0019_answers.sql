-- Commands that decide in a person's stead ask for the token that the app's server was started with. Only a salted, slow hash of it is here.
create table wakeful_guard (
  app text not null,
  salt text not null,
  hash text not null,
  since bigint not null,
  primary key (app, hash)
);

-- What a person said about an effect. With a key it is encrypted, so that a state that was changed in the database has no such word.
alter table wakeful_effect add column settlement text;
