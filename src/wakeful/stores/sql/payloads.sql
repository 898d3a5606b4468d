-- Large payloads in a table of their own, and the encryption keys of payloads.

-- insert_blob(now, id, content) raw --
insert into wakeful_blob (id, content, created_at) values (:id, :content, {now})

-- find_blob(id) raw --
select id, content from wakeful_blob where id = :id

-- list_ciphers() --
-- The keys that payloads of this store may be encrypted with.
select id from wakeful_cipher order by id

-- insert_cipher(now, id) --
insert into wakeful_cipher (id, used_since) values (:id, {now}) on conflict (id) do nothing

-- delete_cipher(id) --
delete from wakeful_cipher where id = :id

-- note_binding(process) --
-- From now on this process binds every payload that it writes.
update wakeful_process set binds = 1 where id = :process

-- unbound_processes(now) --
-- Living processes that do not yet bind the payloads that they write.
select id, host, pid, coalesce(knows, 7) from wakeful_process
where state = 'alive' and lease_until > {now} and binds is null order by id
