-- Chains of events that come back to where they were, counted.

-- count_rounds(now, app, chain, agent, many, within) --
-- So many times more; from the start once the time is over within which is counted.
insert into wakeful_chain (app, chain, agent, began_at, rounds)
values (:app, :chain, :agent, {now}, cast(:many as bigint))
on conflict (app, chain, agent) do update
set rounds = excluded.rounds
      + case when wakeful_chain.began_at + cast(:within as bigint) > excluded.began_at then wakeful_chain.rounds else 0 end,
    began_at = case
      when wakeful_chain.began_at + cast(:within as bigint) > excluded.began_at then wakeful_chain.began_at
      else excluded.began_at
    end
returning app, chain, agent, rounds

-- stop_chain(now, app, chain, agent) --
-- No row comes back when somebody has heard of this chain already.
update wakeful_chain set stopped_at = {now}
where app = :app and chain = :chain and agent = :agent
  and not exists (
    select 1 from wakeful_chain other
    where other.app = :app and other.chain = :chain and other.stopped_at is not null
  )
returning app, chain, agent

-- remove_chains(app, before, most) --
-- Those that have not come back for long.
delete from wakeful_chain where app = :app and (chain, agent) in (
  select chain, agent from wakeful_chain where app = :app and began_at < :before limit :most)
returning chain

-- start_denied(event_seq, agent, run_id, reason) --
-- A person lets an agent have what policy denied to it. No row comes back for what was not denied.
update wakeful_admission set state = 'started', run_id = :run_id, reason = :reason
where event_seq = :event_seq and agent = :agent and state = 'denied' and run_id is null
returning event_seq
