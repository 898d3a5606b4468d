-- Runs that are held at admission are judged anew once another policy is in force.
alter table wakeful_approval add column policy text;               -- about a run: the version of the policy by which it was judged last
create index wakeful_approval_judged on wakeful_approval (app, policy) where state = 'open' and kind = 'run';
