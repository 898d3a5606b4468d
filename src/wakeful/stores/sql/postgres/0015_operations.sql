-- Effects found by the operation id that the service was told: that is the one in its records.
create index wakeful_effect_operation on wakeful_effect (operation) where operation is not null;
