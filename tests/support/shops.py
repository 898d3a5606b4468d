"""An application's own database, which knows nothing of Wakeful: a SQLite file or a PostgreSQL database, with orders in it.

The SQLite one is written to by Python's own sqlite3, which is often much older than the library that reads.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import asyncpg
import pytest

from support.databases import Databases
from wakeful.connect.postgres.trigger import postgres_changes
from wakeful.connect.rows.outbox import outbox
from wakeful.connect.sqlite.trigger import sqlite_changes
from wakeful.testing.postgres_server import PostgresServer
from wakeful.triggers.source import ReadTrigger

ORDERS = "create table orders (id integer primary key, customer text, total {real})"


class Shop(Protocol):
    """What a test does to either of them. Parameters are $1, $2, …"""

    url: str
    database: str

    async def do(self, sql: str, *parameters: Any) -> list[Any]: ...

    async def many(self, sql: str, rows: Sequence[Sequence[Any]]) -> None: ...

    def changes(self, **options: Any) -> ReadTrigger: ...

    def outbox(self, **options: Any) -> ReadTrigger: ...

    async def close(self) -> None: ...


class SqliteShop:
    database = "sqlite"

    def __init__(self, path: Path) -> None:
        self.path = path
        self.url = str(path)
        self.connection = sqlite3.connect(path, isolation_level=None, timeout=20)
        self.connection.execute(ORDERS.format(real="real"))

    async def do(self, sql: str, *parameters: Any) -> list[Any]:
        return self.connection.execute(sql.replace("$", "?"), parameters).fetchall()

    async def many(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        self.connection.execute("begin")
        self.connection.executemany(sql.replace("$", "?"), rows)
        self.connection.execute("commit")

    def changes(self, **options: Any) -> ReadTrigger:
        return sqlite_changes(self.path, **{"table": "orders", **options})

    def outbox(self, **options: Any) -> ReadTrigger:
        return outbox(self.url, **options)

    async def close(self) -> None:
        self.connection.close()


class PostgresShop:
    database = "postgres"

    def __init__(self, url: str, connection: Any) -> None:
        self.url = url
        self.connection = connection

    async def do(self, sql: str, *parameters: Any) -> list[Any]:
        return [tuple(row) for row in await self.connection.fetch(sql, *parameters)]

    async def many(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        await self.connection.executemany(sql, rows)

    def changes(self, **options: Any) -> ReadTrigger:
        return postgres_changes(self.url, **{"table": "orders", "via": "triggers", **options})

    def outbox(self, **options: Any) -> ReadTrigger:
        return outbox(self.url, **options)

    async def close(self) -> None:
        if not self.connection.is_closed():
            await self.connection.close()


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def any_shop(request: pytest.FixtureRequest) -> Shop:
    found: Shop = request.getfixturevalue(f"{request.param}_shop")
    return found


@pytest.fixture
async def sqlite_shop(tmp_path: Path) -> AsyncIterator[SqliteShop]:
    shop = SqliteShop(tmp_path / "shop.db")
    yield shop
    await shop.close()


@pytest.fixture
async def postgres_shop(postgres_server: PostgresServer, databases: Databases) -> AsyncIterator[PostgresShop]:
    """A database that is used once: the test leaves triggers and tables in it."""
    name = await postgres_server.create_database()
    connection = await asyncpg.connect(postgres_server.dsn(name))
    await connection.execute(ORDERS.format(real="double precision"))
    shop = PostgresShop(postgres_server.dsn(name), connection)
    yield shop
    await shop.close()
    await postgres_server.drop_database(name)


async def until(truth: Any, limit: float = 30.0) -> None:
    """Wait for something that becomes true by itself."""
    async with asyncio.timeout(limit):
        while not await truth():
            await asyncio.sleep(0.01)
