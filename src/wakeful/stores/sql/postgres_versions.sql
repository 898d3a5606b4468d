-- Queries about versions that must differ on PostgreSQL, each with the reason.

-- lock_versions(app) --
-- differs: without the lock, two processes that leave at once would each see the other alive.
select pg_advisory_xact_lock(hashtextextended('wakeful versions ' || cast(:app as text), 0))
