-- Operations: who did what, written in the same transaction as the change.

-- insert_operation(now, app, operator, way, proved, verb, target, detail) --
insert into wakeful_operation (app, operator, way, proved, verb, target, detail, done_at)
values (:app, :operator, :way, :proved, :verb, :target, :detail, {now})

-- app_of_subject(id) --
-- The app of a run, an effect or an approval.
select id, app from wakeful_run where id = :id
union all
select id, app from wakeful_effect where id = :id
union all
select id, app from wakeful_approval where id = :id

-- find_choice(choice) --
-- How many items of a bulk operation were done until now.
select done from wakeful_operation where choice = :choice

-- count_operation(now, app, operator, way, proved, verb, target, detail, choice, done) --
-- The one row of a bulk operation, which is carried out in slices.
insert into wakeful_operation (app, operator, way, proved, verb, target, detail, choice, done, done_at)
values (:app, :operator, :way, :proved, :verb, :target, :detail, :choice, :done, {now})
on conflict (choice) where choice is not null do update set done = excluded.done, detail = excluded.detail

-- begin_operation(now, app, operator, verb, target, detail) --
-- For a migration, which may work on a schema without the column `way`.
insert into wakeful_operation (app, operator, verb, target, detail, done_at)
values (:app, :operator, :verb, :target, :detail, {now}) returning seq

-- note_way(way, seq) --
update wakeful_operation set way = :way where seq = :seq

-- remove_operation(seq) --
-- A longer row replaces it in the same transaction.
delete from wakeful_operation where seq = :seq
