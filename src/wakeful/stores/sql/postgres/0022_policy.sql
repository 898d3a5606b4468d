-- Policy: the texts that were applied, which one is in force, and how often its counted rules were used.
create table wakeful_policy (
  app text not null,
  version text not null,                  -- digest of the texts
  texts text not null,                    -- JSON: [[name of the file, its text], …]
  seen_at bigint not null,             -- when the store saw this text first
  applied_at bigint not null,          -- when it was last put in force
  applied_by text not null,
  active bigint not null check (active in (0, 1)),
  primary key (app, version)
);
create unique index wakeful_policy_active on wakeful_policy (app) where active = 1;

-- One row for each rule with `over` and each subject of it: locked while its uses are counted.
create table wakeful_policy_counter (
  app text not null,
  rule text not null,
  subject text not null,                  -- the value of `per`; '' without one
  primary key (app, rule, subject)
);
create table wakeful_policy_use (
  app text not null,
  rule text not null,
  subject text not null,
  use text not null,                      -- the effect, or the event and its agent: each counts once
  used_at bigint not null,
  primary key (app, rule, subject, use)
);
create index wakeful_policy_use_time on wakeful_policy_use (app, used_at);

-- What allowed an effect. Null: opened by a version that did not say.
alter table wakeful_effect add column rule text;
alter table wakeful_effect add column policy text;

-- Where a decision was made and about what. Null: stored by a version that did not say.
alter table wakeful_decision add column app text;
alter table wakeful_decision add column place text;
alter table wakeful_decision add column action text;
alter table wakeful_decision add column effect_id text;
alter table wakeful_decision add column mode text;
create index wakeful_decision_time on wakeful_decision (decided_at);

-- What is asked for: the answer to a question of a run, or (run) whether a run may begin.
alter table wakeful_approval add column kind text not null default 'question';
alter table wakeful_approval add column rule text;
