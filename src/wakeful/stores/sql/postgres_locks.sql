-- Queries about locks that must differ on PostgreSQL.

-- look_at_lock(app, name) --
-- differs: `= any(array[…])`, and the owner instead of the state, as in save_step: the holder is looked up by its seq.
select holder.id, holder.agent, lock.taken_at, lock.run_seq, lock.run_token
from wakeful_lock lock
join wakeful_run holder on holder.seq = any(array[lock.run_seq]) and holder.token = lock.run_token and holder.owner is not null
where lock.app = :app and lock.name = :name
