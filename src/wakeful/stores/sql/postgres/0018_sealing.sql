-- Payloads that are bound to their places are written only once every process reads them, and a store becomes strict only once every
-- process writes them.
alter table wakeful_process add column binds bigint; -- 1: it binds every payload that it writes; null: not, or not yet
