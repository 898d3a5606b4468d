-- Runs that meet other code than they began with.

-- note_version(seq, token, version) --
update wakeful_run set version = :version where seq = :seq and token = :token and state = 'running' returning seq

-- drop_steps(seq, token) --
-- The run starts from the top. Its effects stay in the ledger and are found there; facts about the versions it met, people's remarks,
-- and what people are asked about its effects, are kept.
delete from wakeful_step where run_seq = :seq
  and not (key like 'approve %' and key in (select asked.key from wakeful_approval asked where asked.run_seq = :seq and asked.kind = 'effect'))
  and not (state = 'fact' and (key = 'version' or key like 'version %' or key like 'remark %'))
  and exists (select 1 from wakeful_run where seq = :seq and token = :token and state = 'running')

-- drop_waits(seq, token) --
-- Events that ended a wait of this run may end one again.
delete from wakeful_wait where run_seq = :seq
  and exists (select 1 from wakeful_run where seq = :seq and token = :token and state = 'running')
