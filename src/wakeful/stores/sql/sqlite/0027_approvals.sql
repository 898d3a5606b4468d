-- Approvals of effects: an effect that a rule asks about waits, with an approval that is bound to exactly what would happen.

-- One more state. A check cannot be altered here, and to make the table anew would take it from processes of older versions. The words of
-- the check do not change what is stored, so the schema is edited, as SQLite's documentation of ALTER TABLE describes. It becomes:
-- check (state in ('staged', 'waiting', 'intent', 'retrying', 'unknown', 'held', 'confirmed', 'failed', 'abandoned', 'undone'))
pragma writable_schema = on;
update sqlite_schema set sql = replace(sql, '(''staged'', ''intent''', '(''staged'', ''waiting'', ''intent''')
where type = 'table' and name = 'wakeful_effect';
pragma writable_schema = reset;

alter table wakeful_effect add column approval text; -- the approval that it waits for, or waited for last
alter table wakeful_effect add column executed text; -- the arguments that a person edited: they are called, settled, looked for and undone

-- What would happen, and who may answer.
alter table wakeful_approval add column effect_id text;
alter table wakeful_approval add column action text;
alter table wakeful_approval add column arguments text;            -- JSON, by parameter, as shown to people
alter table wakeful_approval add column digest text;               -- of action, arguments and rule
alter table wakeful_approval add column needed integer not null default 1; -- how many people must say yes
alter table wakeful_approval add column approvers text;            -- JSON: groups and people; null: anybody
alter table wakeful_approval add column kept_out text;             -- JSON: people who may not answer
alter table wakeful_approval add column editable integer not null default 0;
alter table wakeful_approval add column valid_for integer;         -- how long a yes serves retries
alter table wakeful_approval add column used_at integer;           -- its effect has ended: the yes serves nothing more
alter table wakeful_approval add column escalations text;          -- JSON: [[when, [groups and people]], …], what is left of them
alter table wakeful_approval add column tend_at integer;           -- open: when it is widened, or ends
create index wakeful_approval_effect on wakeful_approval (effect_id) where effect_id is not null;
create index wakeful_approval_tend on wakeful_approval (app, tend_at) where state = 'open' and tend_at is not null;

-- One person, one vote. Votes for other arguments than those that are asked about now do not count.
create table wakeful_vote (
  seq integer primary key,
  app text not null,
  approval text not null,
  voter text not null,
  answer text not null,                   -- JSON: true or false
  proved integer not null,                -- 1: by a personal token
  digest text not null,                   -- what was approved
  note text,
  voted_at integer not null,
  unique (approval, voter)
) strict;
