-- Runs that meet other code than they began with.

-- note_version(seq, token, version) --
update wakeful_run set version = :version where seq = :seq and token = :token and state = 'running' returning seq

-- drop_steps(seq, token) --
-- The run starts from the top. Its effects stay in the ledger and are found there; facts about the versions it met, and people's remarks, are kept.
delete from wakeful_step where run_seq = :seq and not (state = 'fact' and (key = 'version' or key like 'version %' or key like 'remark %'))
  and exists (select 1 from wakeful_run where seq = :seq and token = :token and state = 'running')

-- drop_waits(seq, token) --
-- Events that ended a wait of this run may end one again.
delete from wakeful_wait where run_seq = :seq
  and exists (select 1 from wakeful_run where seq = :seq and token = :token and state = 'running')
