-- Counts of chains of events that come back to the same agent.

-- count_rounds(now, app, chain, agent, many, within) --
-- Adds `many` rounds; the count starts again once the period `within` is over.
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
-- No row comes back if people were already notified of this chain.
update wakeful_chain set stopped_at = {now}
where app = :app and chain = :chain and agent = :agent
  and not exists (
    select 1 from wakeful_chain other
    where other.app = :app and other.chain = :chain and other.stopped_at is not null
  )
returning app, chain, agent

-- remove_chains(app, before, most) --
-- Chains that began long ago.
delete from wakeful_chain where app = :app and (chain, agent) in (
  select chain, agent from wakeful_chain where app = :app and began_at < :before limit :most)
returning chain

-- start_denied(event_seq, agent, run_id, reason) --
-- A person hands an agent an event that policy denied to it. No row comes back for other events.
update wakeful_admission set state = 'started', run_id = :run_id, reason = :reason
where event_seq = :event_seq and agent = :agent and state = 'denied' and run_id is null
returning event_seq
