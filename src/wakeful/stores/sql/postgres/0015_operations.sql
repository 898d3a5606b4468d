-- Effects found by the operation id that the service was told: that is the one in its records.
create index wakeful_effect_operation on wakeful_effect (operation) where operation is not null;
-- Effects that have another one's result by its key: asked before that one is undone, or its result is corrected.
create index wakeful_effect_follows on wakeful_effect (follows) where follows is not null;
