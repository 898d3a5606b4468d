-- Queries about settling effects that must differ on PostgreSQL.

-- stored_of_family(root) --
-- differs: with `= any(array(…))` and `state || ''` each row is found by its key, independent of table statistics.
select 'step ' || cast(run_seq as text) || ' ' || key from wakeful_step
where state || '' in ('done', 'waiting') and run_seq = any(array(
  select seq from wakeful_run where id = :root union all select seq from wakeful_run where root = :root and id <> root))
union all
select 'effect ' || id from wakeful_effect where root = :root
union all
select 'done ' || id from wakeful_run where id = :root and (state || '' = 'done' or committed_at is not null)
union all
select 'done ' || id from wakeful_run
where root = :root and id <> root and (state || '' = 'done' or committed_at is not null)

-- lock_family_of_effect(root) --
-- differs: as stored_of_family.
select id, state from wakeful_run
where seq = any(array(
  select seq from wakeful_run where id = :root union all select seq from wakeful_run where root = :root and id <> root))
order by seq + 0 for update

-- lock_reasons_of_family(root) --
-- differs: as stored_of_family.
select state, reason from wakeful_run
where seq = any(array(
  select seq from wakeful_run where id = :root union all select seq from wakeful_run where root = :root and id <> root))
order by seq + 0 for update
