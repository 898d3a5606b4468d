-- Which door brings what. Marks of Wakeful's own stand here, where no sender can write.

-- What the bytes in quarantine are: 'raw', as they came; 'event', one that its source had read, as Wakeful wrote it down. Null:
-- an earlier version kept them.
alter table wakeful_quarantine add column form text;

-- The names in `source` of the events that a source brings, a JSON list. They are reserved: no other door takes them. Null: an
-- earlier version entered the source, and its name counts.
alter table wakeful_source add column brings text;
