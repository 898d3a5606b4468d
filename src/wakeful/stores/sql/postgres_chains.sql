-- What must differ on PostgreSQL about chains.

-- remove_chains(app, before, most) --
-- differs: `app || ''` is what the index has, which keeps the planner from it where one chain is looked up. One that comes back
-- meanwhile is in another place, and stays.
delete from wakeful_chain where ctid = any(array(
  select ctid from wakeful_chain where app || '' = :app and began_at < :before order by began_at limit :most))
returning chain

-- start_denied(event_seq, agent, run_id, reason) --
-- differs: `agent || ''` keeps the planner from walking along everything that an agent had to do with.
update wakeful_admission set state = 'started', run_id = :run_id, reason = :reason
where event_seq = :event_seq and agent || '' = :agent and state = 'denied' and run_id is null
returning event_seq
