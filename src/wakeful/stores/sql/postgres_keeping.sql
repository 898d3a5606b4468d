-- What must differ in housekeeping on PostgreSQL.

-- lock_family(root, before) --
-- differs: `skip locked` leaves what somebody else has in hand. `= any(array(…))` as in load_sent.
select cast(:root as text), seq, id, token, event_seq,
  state in ('done', 'denied', 'cancelled') and finished_at <= :before and place is null
    and seq <> (select max(seq) from wakeful_run)
from wakeful_run
where seq = any(array(
    select seq from wakeful_run where id = :root
    union all
    select seq from wakeful_run where root = :root and id <> root
  ))
for update skip locked

-- unsettled_of_family(root) --
-- differs: as load_sent, and `|| ''` as in save_delivery.
select cast(:root as text) from wakeful_effect
where root = :root and state || '' in ('staged', 'intent', 'retrying', 'unknown', 'held')
union all
select cast(:root as text) from wakeful_delivery
where run_seq = any(array(
    select seq from wakeful_run where id = :root
    union all
    select seq from wakeful_run where root = :root and id <> root
  ))
  and state || '' in ('held', 'pending', 'dead')
union all
select cast(:root as text) from wakeful_run run
cross join lateral (select state from wakeful_run where seq = run.parent_seq) caller
where run.id = :root and caller.state not in ('done', 'dead', 'denied', 'cancelled')
union all
select cast(:root as text) from wakeful_operation_key
where effect_id = any(array(select id from wakeful_effect where root = :root))

-- lock_event(seq) --
-- differs: `skip locked` leaves what somebody else has in hand.
select seq from wakeful_event where seq = :seq for update skip locked

-- forget_payload(seq) --
-- differs: by `= any(array(…))` each run is looked up by its id; a join may walk along all of them.
update wakeful_event set envelope = '' where seq = :seq and envelope <> ''
  and not exists (select 1 from wakeful_quarantine where event_seq = :seq and state = 'kept')
  and not exists (
    select 1 from wakeful_run
    where id = any(array(select run_id from wakeful_admission where event_seq = :seq and run_id is not null))
  )
returning seq

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
-- differs: `skip locked` leaves what somebody else has in hand.
select agent, key from wakeful_key where app = :app and agent = :agent and key = :key for update skip locked
