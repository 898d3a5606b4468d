-- Related runs, for people: callers and called runs, and the runs that an event woke.

-- parent_of_run(seq) --
select parent.id from wakeful_run run join wakeful_run parent on parent.seq = run.parent_seq where run.seq = :seq

-- children_of_run(seq) --
select id, agent, state from wakeful_run where parent_seq = :seq order by seq

-- later_runs(root) --
-- The later runs of a family, made by `--again` or fork.
select id, state, created_at,
  exists (select 1 from wakeful_remedy remedy where remedy.run_seq = wakeful_run.seq and remedy.verb = 'fork') as forked
from wakeful_run where root = :root and id <> root order by seq

-- who_waited(event_seq) --
-- Runs that waited for an event and took it.
select run.id as run, run.agent from wakeful_wait wait join wakeful_run run on run.seq = wait.run_seq
where wait.event_seq = :event_seq order by run.seq
