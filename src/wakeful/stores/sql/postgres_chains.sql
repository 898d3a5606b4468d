-- Queries about chains that must differ on PostgreSQL.

-- remove_chains(app, before, most) --
-- differs: the index is on `app || ''`, which keeps the planner from it when a single chain is looked up. A chain that comes back
-- meanwhile has moved, and stays.
delete from wakeful_chain where ctid = any(array(
  select ctid from wakeful_chain where app || '' = :app and began_at < :before order by began_at limit :most))
returning chain

-- start_denied(event_seq, agent, run_id, reason) --
-- differs: `agent || ''` keeps the planner from walking all admissions of an agent.
update wakeful_admission set state = 'started', run_id = :run_id, reason = :reason
where event_seq = :event_seq and agent || '' = :agent and state = 'denied' and run_id is null
returning event_seq
