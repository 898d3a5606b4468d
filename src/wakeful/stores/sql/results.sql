-- The ends of runs, for callers that wait for them.

-- ends_of_runs(ids) --
-- `ids` is a JSON list. Runs that are no longer stored do not come back.
select id, app, agent, state, case when state = 'done' then output end, error, reason
from wakeful_run where id in (select value from json_each(:ids))
