-- Backfill: what PostgreSQL says differently.

-- known_events(keys) --
-- differs: a list is unfolded by another function, and into an array, so that each is looked up by its index.
select key from wakeful_event where key = any(array(select json_array_elements_text(cast(:keys as json))))

-- not_begun(ids) --
-- differs: as above; the states of runs are no way in.
select id from wakeful_run
where id = any(array(select json_array_elements_text(cast(:ids as json)))) and state || '' = 'ready' and token = 0
