"""Databases with the schema and nothing else, one for each test, and used again: to make one and drop it costs the server three
checkpoints and hundreds of files, to empty it a millisecond.

One that a test has changed in any other way than by rows is dropped: other tables, columns, functions or settings, statistics
that somebody gathered, many dead rows, a deadlock that was counted.
"""

from __future__ import annotations

import asyncio
from typing import Any

import asyncpg

from wakeful.clock import VirtualClock
from wakeful.stores.postgres import PostgresBackend
from wakeful.testing.places import emptying
from wakeful.testing.postgres_server import PostgresServer

GROWN = 1_000_000  # bytes
CUT = "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
LIKE = """
select
  (select string_agg(concat_ws(' ', relname, relkind, reltuples, attname, atttypid, attnotnull), ',' order by pg_class.oid, attnum)
   from pg_class join pg_attribute on attrelid = pg_class.oid
   where relnamespace = 'public'::regnamespace and attnum > 0),
  (select count(*) from pg_proc where pronamespace = 'public'::regnamespace),
  (select count(*) from pg_trigger),
  (select count(*) from pg_publication),
  (select count(*) from pg_replication_slots where database = current_database()),
  (select count(*) from pg_constraint),
  (select count(*) from pg_db_role_setting where setdatabase = (select oid from pg_database where datname = current_database())),
  (select string_agg(nspname, ',' order by nspname) from pg_namespace where nspname not like 'pg_temp%' and nspname not like 'pg_toast%'),
  (select string_agg(number::text, ',' order by number) from wakeful_migration),
  (select deadlocks from pg_stat_database where datname = current_database())
"""


class Databases:
    """Those of one server."""

    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        self._free: list[str] = []
        self._template: str | None = None
        self._like: Any = None
        self._size = 0

    async def take(self) -> str:
        if self._free:
            return self._free.pop()
        if self._template is None:
            self._template = await self._make_template()
        return await self._server.create_database(template=self._template)

    async def give_back(self, name: str) -> None:
        try:
            async with asyncio.timeout(10):
                clean = await self._is_clean(name)
        except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError):
            clean = False
        if clean:
            self._free.append(name)
        else:
            await self._server.drop_database(name)

    async def _is_clean(self, name: str) -> bool:
        connection = await asyncpg.connect(self._server.dsn(name))
        try:
            await connection.execute(CUT)
            like, size = await self._look(connection)
            if like != self._like or size > self._size + GROWN:
                return False
            await connection.execute(await emptying(connection))
            return True
        finally:
            await connection.close()

    async def _look(self, connection: Any) -> tuple[Any, int]:
        size = await connection.fetchval("select pg_database_size(current_database())")
        return tuple(await connection.fetchrow(LIKE)), int(size)

    async def _make_template(self) -> str:
        name = await self._server.create_database()
        backend = PostgresBackend(self._server.dsn(name), VirtualClock())
        try:
            await backend.migrate()
        finally:
            await backend.close()
        connection = await asyncpg.connect(self._server.dsn(name))
        try:
            self._like, self._size = await self._look(connection)
        finally:
            await connection.close()
        return name
