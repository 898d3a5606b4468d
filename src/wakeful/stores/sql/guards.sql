-- Guards: hashes of apps' tokens. A command that decides on a person's behalf needs one of the tokens.

-- list_guards() --
select app, salt, hash from wakeful_guard order by app, since

-- guards_of(app) --
select hash from wakeful_guard where app = :app

-- remove_guards(app) --
delete from wakeful_guard where app = :app returning app

-- insert_guard(now, app, salt, hash) --
insert into wakeful_guard (app, salt, hash, since) values (:app, :salt, :hash, {now})
on conflict (app, hash) do nothing
