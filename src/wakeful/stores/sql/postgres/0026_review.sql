-- Review: returned outputs, and one list of what waits for a person, in the order of its deadlines.

-- A person may return an output. The verbs of people are listed by the code alone, as those of wakeful_operation are.
alter table wakeful_remedy drop constraint wakeful_remedy_verb_check;

-- Since when the run itself waits for a person: for its output, because its code changed, or because of tampering. Null: it waits for
-- an effect or an approval, or a version that did not say so held it.
alter table wakeful_run add column held_at bigint;
update wakeful_run set held_at = coalesce(started_at, created_at)
where state = 'held' and outcome is null and committed_at is null
  and not exists (select 1 from wakeful_effect effect where effect.root = wakeful_run.root and effect.state = 'held')
  and not exists (select 1 from wakeful_approval asked where asked.run_seq = wakeful_run.seq and asked.state = 'open');
create index wakeful_run_held_output on wakeful_run (coalesce(held_at, started_at, created_at), id)
  where state = 'held' and outcome is not null and committed_at is null;
create index wakeful_run_held_itself on wakeful_run (held_at, id) where state = 'held' and outcome is null and held_at is not null;
create index wakeful_approval_due on wakeful_approval (coalesce(due_at, asked_at), id) where state = 'open';
create index wakeful_effect_held on wakeful_effect (opened_at, id) where state = 'held';
