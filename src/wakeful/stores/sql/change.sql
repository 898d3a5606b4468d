-- Runs that meet other code than they began with.

-- note_version(seq, token, version) --
update wakeful_run set version = :version where seq = :seq and token = :token and state = 'running' returning seq

-- drop_steps(seq, token) --
-- It starts from the top. What it did outside stays in the ledger, and is found; which code it has met is no part of it.
delete from wakeful_step where run_seq = :seq and not (state = 'fact' and (key = 'version' or key like 'version %'))
  and exists (select 1 from wakeful_run where seq = :seq and token = :token and state = 'running')

-- drop_waits(seq, token) --
-- The events that it took may be taken again.
delete from wakeful_wait where run_seq = :seq
  and exists (select 1 from wakeful_run where seq = :seq and token = :token and state = 'running')
