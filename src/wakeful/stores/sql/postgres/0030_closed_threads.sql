-- Deliveries: a message may close its thread, so that none that it overtook goes out behind it.

alter table wakeful_delivery add column closes bigint not null default 0; -- once delivered. 1: what was sent before it in its thread; 2: the thread

create index wakeful_delivery_closing on wakeful_delivery (app, channel, thread) where closes > 0;
