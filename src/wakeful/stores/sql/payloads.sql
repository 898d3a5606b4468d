-- Payloads that have a table of their own, and the keys that payloads are encrypted with.

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

-- blobs_after(after, most) raw --
select id, content from wakeful_blob where id > :after order by id limit :most

-- reseal_blob(id, old, new) raw --
update wakeful_blob set content = :new where id = :id and content = :old
