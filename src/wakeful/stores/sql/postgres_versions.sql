-- What must differ on PostgreSQL for versions, each with its reason.

-- lock_versions(app) --
-- differs: two processes that leave at once would each see the other alive.
select pg_advisory_xact_lock(hashtextextended('wakeful versions ' || cast(:app as text), 0))
