-- How runs ended, for callers that wait for that.

-- ends_of_runs(ids) --
-- A JSON list of ids. Runs that are not stored any more do not come back.
select id, app, agent, state, case when state = 'done' then output end, error, reason
from wakeful_run where id in (select value from json_each(:ids))
