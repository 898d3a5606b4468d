-- What a watcher found is compared by its facts: two versions of Wakeful have different words for the same thing.
alter table wakeful_alarm add column cause text; -- a digest of the facts that it was raised for; null: a version raised it that does not say
alter table wakeful_alarm add column cause_at bigint; -- `last_at` when the cause was stored: if they differ, an older version raised it since
