-- Queries about the ends of runs that must differ on PostgreSQL.

-- ends_of_runs(ids) --
-- differs: the list is an array.
select id, app, agent, state, case when state = 'done' then output end, error, reason
from wakeful_run where id = any(array(select json_array_elements_text(cast(:ids as json))))

-- tell_results(word) --
-- differs: exists only here. Tells all processes which runs are waited for, or which of these have ended.
select pg_notify('wakeful_results', :word)
