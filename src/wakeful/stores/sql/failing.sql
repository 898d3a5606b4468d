-- Agents that fail repeatedly. A successful run touches these rows only if its agent is known to fail.

-- replayed_runs(seq) --
-- Runs that a person repeated: their failure was counted before, or belongs to that person.
select run_seq from wakeful_remedy where run_seq = :seq and verb in ('replay', 'again', 'fork')

-- count_failures(now, app, agent, count) --
-- Adds failures in a row; returns the new count, and since when. The row is locked until the commit.
insert into wakeful_failing (app, agent, count, since, last_at) values (:app, :agent, :count, {now}, {now})
on conflict (app, agent) do update
set count = wakeful_failing.count + excluded.count, last_at = excluded.last_at,
    since = case when wakeful_failing.count = 0 then excluded.since else wakeful_failing.since end
returning count, since

-- forget_failures(app, agent) --
-- A run of the agent succeeded.
delete from wakeful_failing where app = :app and agent = :agent returning agent

-- restart_failures(app, agent) --
-- A person resumed the agent: earlier failures do not pause it again. The row stays until a run succeeds.
update wakeful_failing set count = 0 where app = :app and agent = :agent
