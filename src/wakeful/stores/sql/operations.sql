-- Operations: who did what, written with the act.

-- insert_operation(now, app, operator, way, verb, target, detail) --
insert into wakeful_operation (app, operator, way, verb, target, detail, done_at)
values (:app, :operator, :way, :verb, :target, :detail, {now})

-- find_choice(choice) --
-- How many of a choice were done until now.
select done from wakeful_operation where choice = :choice

-- count_operation(now, app, operator, way, verb, target, detail, choice, done) --
-- The one row of a choice that is carried out slice by slice.
insert into wakeful_operation (app, operator, way, verb, target, detail, choice, done, done_at)
values (:app, :operator, :way, :verb, :target, :detail, :choice, :done, {now})
on conflict (choice) where choice is not null do update set done = excluded.done, detail = excluded.detail
