-- Halts: nothing of an app, an agent or an action is claimed, called or delivered until a person lifts it. Lifting deletes the row; who
-- did it is in wakeful_operation.
create table wakeful_halt (
  app text not null,
  agent text not null,                    -- '': all agents
  action text not null,                   -- '': all actions, and claims and deliveries too
  operator text not null,
  note text,
  halted_at bigint not null,
  primary key (app, agent, action),
  check (agent = '' or action = '')
);

-- The halt that a parked run waits for: 'all', 'agent NAME' or 'action NAME'.
alter table wakeful_run add column halted_for text;
create index wakeful_run_halted on wakeful_run (app, halted_for) where halted_for is not null;
-- Runs that are to be undone: those that a person cancelled are claimed even while their agent is halted.
create index wakeful_run_stopping on wakeful_run (app, agent, due_at) where cancel_at is not null and state in ('ready', 'waiting');
