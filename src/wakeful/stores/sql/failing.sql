-- Agents that fail again and again. A run that goes well has nothing to do with this, unless its agent is known to fail.

-- replayed_runs(seq) --
-- Runs that a person had done again: their dead ends were counted once, or are that person's own.
select run_seq from wakeful_remedy where run_seq = :seq and verb in ('replay', 'again', 'fork')

-- count_failures(now, app, agent, count) --
-- So many more in a row; how many that makes, and since when. The row is locked until the commit.
insert into wakeful_failing (app, agent, count, since, last_at) values (:app, :agent, :count, {now}, {now})
on conflict (app, agent) do update
set count = wakeful_failing.count + excluded.count, last_at = excluded.last_at,
    since = case when wakeful_failing.count = 0 then excluded.since else wakeful_failing.since end
returning count, since

-- forget_failures(app, agent) --
-- A run of it went well.
delete from wakeful_failing where app = :app and agent = :agent returning agent

-- restart_failures(app, agent) --
-- A person let it go on: what failed before that does not pause it again. The row stays until a run goes well.
update wakeful_failing set count = 0 where app = :app and agent = :agent
