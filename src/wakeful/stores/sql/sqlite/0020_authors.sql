-- By which way a person or a token came: cli, http, code, worker; null: written by a version that did not say.
alter table wakeful_operation add column way text;
-- A choice that is carried out slice by slice has one row: its id, and how many of it were done until now.
alter table wakeful_operation add column choice text;
alter table wakeful_operation add column done integer;
create unique index wakeful_operation_choice on wakeful_operation (choice) where choice is not null;
