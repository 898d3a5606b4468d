-- Housekeeping queries that must differ on PostgreSQL.

-- lock_family(root, before) bulk --
-- differs: all families in one statement. `skip locked` leaves out rows of other transactions. `= any(array(…))` as in load_sent.
select given.root, run.seq, run.id, run.token, run.event_seq,
  run.state in ('done', 'denied', 'cancelled') and run.finished_at <= given.before and run.place is null
    and run.seq <> (select max(seq) from wakeful_run)
from unnest(cast(:root as text[]), cast(:before as bigint[])) as given (root, before)
join wakeful_run run on run.seq = any(array(
    select seq from wakeful_run where id = given.root
    union all
    select seq from wakeful_run where root = given.root and id <> root
  ))
for update of run skip locked

-- unsettled_of_family(root) --
-- differs: as load_sent, and `|| ''` as in save_delivery.
select cast(:root as text) from wakeful_effect
where root = :root and state || '' in ('staged', 'waiting', 'intent', 'retrying', 'unknown', 'held')
union all
select cast(:root as text) from wakeful_delivery
where run_seq = any(array(
    select seq from wakeful_run where id = :root
    union all
    select seq from wakeful_run where root = :root and id <> root
  ))
  and state || '' in ('held', 'pending', 'unknown', 'dead')
union all
select cast(:root as text) from wakeful_run run
cross join lateral (select state from wakeful_run where seq = run.parent_seq) caller
where run.id = :root and caller.state not in ('done', 'dead', 'denied', 'cancelled')
union all
select cast(:root as text) from wakeful_operation_key
where effect_id = any(array(select id from wakeful_effect where root = :root and once is not null))

-- lock_event(seq) bulk --
-- differs: all rows in one statement. `skip locked` leaves out rows of other transactions.
select seq from wakeful_event where seq = any(cast(:seq as bigint[])) for update skip locked

-- forget_payload(seq) bulk --
-- differs: all rows in one statement. With `= any(array(…))` and `limit 1` each run is looked up by its id; a join may walk all runs.
update wakeful_event event set envelope = '' where event.seq = any(cast(:seq as bigint[])) and event.envelope <> ''
  and (select 1 from wakeful_quarantine where event_seq = event.seq and state = 'kept' limit 1) is null
  and (
    select 1 from wakeful_run
    where id = any(array(select run_id from wakeful_admission where event_seq = event.seq and run_id is not null)) limit 1
  ) is null
returning event.seq

-- unsettled_of_families(root) bulk --
-- differs: as unsettled_of_family, for all families in one statement.
select given.root from unnest(cast(:root as text[])) as given (root)
where coalesce(
  (select 1 from wakeful_effect
   where root = given.root and state || '' in ('staged', 'waiting', 'intent', 'retrying', 'unknown', 'held') limit 1),
  (select 1 from wakeful_delivery
   where run_seq = any(array(
       select seq from wakeful_run where id = given.root
       union all
       select seq from wakeful_run where root = given.root and id <> root
     ))
     and state || '' in ('held', 'pending', 'unknown', 'dead') limit 1),
  (select 1 from wakeful_run run
   where run.id = given.root and (select state from wakeful_run where seq = run.parent_seq)
     not in ('done', 'dead', 'denied', 'cancelled') limit 1),
  (select 1 from wakeful_operation_key
   where effect_id = any(array(select id from wakeful_effect where root = given.root and once is not null)) limit 1)
) is not null

-- remove_steps(run_seq) bulk --
-- differs, like all queries below: all rows in one statement.
delete from wakeful_step where run_seq = any(cast(:run_seq as bigint[]))

-- remove_attempts(run_seq) bulk --
delete from wakeful_attempt where run_seq = any(cast(:run_seq as bigint[]))

-- remove_effects(root) bulk --
delete from wakeful_effect where root = any(cast(:root as text[]))

-- remove_deliveries(run_seq) bulk --
delete from wakeful_delivery where run_seq = any(cast(:run_seq as bigint[]))

-- remove_remedies(run_seq) bulk --
delete from wakeful_remedy where run_seq = any(cast(:run_seq as bigint[]))

-- remove_batch(run_seq) bulk --
delete from wakeful_batch where run_seq = any(cast(:run_seq as bigint[])) returning event_seq

-- remove_waits(run_seq) bulk --
delete from wakeful_wait where run_seq = any(cast(:run_seq as bigint[]))

-- remove_callers(run_seq) bulk --
delete from wakeful_caller where run_seq = any(cast(:run_seq as bigint[]))

-- remove_votes(run_seq) bulk --
delete from wakeful_vote
where approval = any(array(select id from wakeful_approval where run_seq = any(cast(:run_seq as bigint[]))))

-- remove_approvals(run_seq) bulk --
delete from wakeful_approval where run_seq = any(cast(:run_seq as bigint[]))

-- remove_decisions(event_seq, run_seq) bulk --
delete from wakeful_decision decision using unnest(cast(:event_seq as bigint[]), cast(:run_seq as bigint[])) as given (event, run)
where decision.event_seq = any(array[given.event]) and decision.run_seq = given.run

-- remove_run(seq) bulk --
delete from wakeful_run where seq = any(cast(:seq as bigint[]))

-- forget_conflicts(event_seq) bulk --
update wakeful_conflict set envelope = '' where event_seq = any(cast(:event_seq as bigint[]))

-- forget_headers(event_seq) bulk --
update wakeful_quarantine set headers = null where event_seq = any(cast(:event_seq as bigint[])) and headers is not null

-- remove_operations(seq, before) bulk --
delete from wakeful_operation operation using unnest(cast(:seq as bigint[]), cast(:before as bigint[])) as given (seq, before)
where operation.seq = any(array[given.seq]) and operation.done_at <= given.before

-- remove_event(seq, before) --
-- differs: as forget_payload.
delete from wakeful_event where seq = :seq and envelope = '' and accepted_at <= :before
  and seq <> (select max(seq) from wakeful_event)
  and not exists (select 1 from wakeful_quarantine where event_seq = :seq and state = 'kept')
  and not exists (
    select 1 from wakeful_run
    where id = any(array(select run_id from wakeful_admission where event_seq = :seq and run_id is not null))
  )
returning seq

-- lock_key(app, agent, key) --
-- differs: `skip locked` leaves out rows of other transactions.
select agent, key from wakeful_key where app = :app and agent = :agent and key = :key for update skip locked
