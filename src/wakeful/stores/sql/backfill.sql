-- Backfill: past occurrences that are done later.

-- redo_occurrence(seq, many) --
update wakeful_occurrence set redone = redone + :many where seq = :seq

-- ledger_between(schedule_seq, first, last, after, after_seq, most) --
-- The records of occurrences within a span, in order.
select seq, state, from_at, to_at from wakeful_occurrence
where schedule_seq = :schedule_seq and to_at >= :first and from_at <= :last and (to_at, seq) > (:after, :after_seq)
order by to_at, seq limit :most

-- known_events(keys) --
-- Which of these events exist; `keys` is a JSON list.
select key from wakeful_event where key in (select value from json_each(:keys))

-- not_begun(ids) --
-- Which of these runs wait for their first start; `ids` is a JSON list.
select id from wakeful_run where id in (select value from json_each(:ids)) and state = 'ready' and token = 0
