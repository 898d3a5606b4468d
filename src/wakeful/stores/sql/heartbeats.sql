-- Checks of heartbeats, for people.

-- list_checks() --
select app, name, agent, state, definition, data, owner, next_at, changed_at from wakeful_schedule
where origin = 'heartbeat' and state <> 'removed' order by app, agent, name
