-- Backfill queries that must differ on PostgreSQL.

-- known_events(keys) --
-- differs: another function unfolds a list, and into an array, so that each key is looked up by its index.
select key from wakeful_event where key = any(array(select json_array_elements_text(cast(:keys as json))))

-- not_begun(ids) --
-- differs: as known_events; and the planner must not enter by the index of states.
select id from wakeful_run
where id = any(array(select json_array_elements_text(cast(:ids as json)))) and state || '' = 'ready' and token = 0
