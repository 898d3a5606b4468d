"""Somebody's own database, which knows nothing of Wakeful: the rows in it change, and an app is to hear of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from wakeful.testing.postgres_server import PostgresServer

CUT = "select pg_terminate_backend(pid) from pg_stat_activity where datname = $1 and pid <> pg_backend_pid()"
UNUSED = "select count(*) from pg_replication_slots where database = $1 and active"
DROP = "select pg_drop_replication_slot(slot_name) from pg_replication_slots where database = $1"

TABLE = "create table orders (id int primary key, status text, total numeric)"


async def drop_slots(dsn: str) -> None:
    """Of this database. The server notices a moment later that who read one has gone, and lets nobody drop it before."""
    connection = await asyncpg.connect(dsn)
    try:
        here = await connection.fetchval("select current_database()")
        while await connection.fetchval(UNUSED, here):
            await asyncio.sleep(0.01)
        await connection.fetch(DROP, here)
    finally:
        await connection.close()


class Shop:
    """One database, with a connection to change it by."""

    def __init__(self, server: PostgresServer, name: str) -> None:
        self.server = server
        self.name = name
        self._connection: Any = None

    @property
    def dsn(self) -> str:
        return self.server.dsn(self.name)

    async def connection(self) -> Any:
        if self._connection is None or self._connection.is_closed():
            self._connection = await asyncpg.connect(self.dsn)
        return self._connection

    async def execute(self, *statements: str) -> None:
        """Each in a transaction of its own."""
        connection = await self.connection()
        for statement in statements:
            await connection.execute(statement)

    async def value(self, query: str, *parameters: Any) -> Any:
        return await (await self.connection()).fetchval(query, *parameters)

    async def close(self) -> None:
        if self._connection is not None:
            await self._connection.close()


@pytest.fixture
async def shop(postgres_server: PostgresServer) -> AsyncIterator[Shop]:
    name = await postgres_server.create_database()
    made = Shop(postgres_server, name)
    await made.execute(TABLE)
    yield made
    await made.close()
    await remove(postgres_server, name)


async def remove(server: PostgresServer, name: str) -> None:
    """With its slots: they would keep it from being dropped, and count for all."""
    connection = await asyncpg.connect(server.dsn())
    try:
        await connection.execute(CUT.replace("$1", f"'{name}'"))
        while await connection.fetchval(UNUSED, name):
            await connection.execute(CUT.replace("$1", f"'{name}'"))
        await connection.execute(DROP.replace("$1", f"'{name}'"))
    finally:
        await connection.close()
    await server.drop_database(name)
