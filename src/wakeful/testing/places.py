"""New stores for each case: new SQLite files, or a new schema in a given PostgreSQL database."""

from __future__ import annotations

import contextlib
import itertools
import secrets
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit, urlunsplit

from wakeful.clock import SystemClock
from wakeful.settings import sqlite_path
from wakeful.stores.opening import open_database

Prepare = Callable[[str], Awaitable[None] | None]
NewStore = Callable[[], Coroutine[Any, Any, str]]


@contextlib.asynccontextmanager
async def new_stores(store: str | None = None, prepare: Prepare | None = None) -> AsyncIterator[NewStore]:
    """Yields a function that returns the address of an empty store; it may reuse and empty the previous one.

    `store` decides the kind: in a postgresql:// database a new schema is created and dropped in the end, and nothing
    else is touched. `prepare` is called once with the address, to create your own tables there.
    """
    if store is None or sqlite_path(store) is not None:
        async with files(prepare) as make:
            yield make
    else:
        async with schemas(store, prepare) as make:
            yield make


@contextlib.asynccontextmanager
async def files(prepare: Prepare | None) -> AsyncIterator[NewStore]:
    with tempfile.TemporaryDirectory(prefix="wakeful-stores-") as folder:
        template = Path(folder) / "template.db"
        await make_ready(f"sqlite:///{template}", prepare)
        numbers = itertools.count(1)

        async def make() -> str:
            path = Path(folder) / f"{next(numbers)}.db"
            for suffix in ("", "-wal"):
                written = template.with_name(template.name + suffix)
                if written.exists():
                    shutil.copy(written, path.with_name(path.name + suffix))
            return f"sqlite:///{path}"

        yield make


@contextlib.asynccontextmanager
async def schemas(store: str, prepare: Prepare | None) -> AsyncIterator[NewStore]:
    name = f"wakeful_test_{secrets.token_hex(6)}"
    url = with_schema(store, name)
    await execute(store, f"create schema {name}")
    try:
        await make_ready(url, prepare)
        connection = await connect(url)
        try:
            script = await emptying(connection)

            async def make() -> str:
                await connection.execute(script)
                return url

            yield make
        finally:
            await connection.close()
    finally:
        await execute(store, f"drop schema {name} cascade")


async def emptying(connection: Any) -> str:
    """A script that empties all tables of a schema.

    TRUNCATE would create new files for each table and index and take a hundred times as long; it is used only for
    tables that are not ours, which may refer to each other. The lock keeps out concurrent writers.
    """
    tables = await names(connection, "select tablename from pg_tables where schemaname = current_schema()")
    numbers = await names(connection, "select sequencename from pg_sequences where schemaname = current_schema()")
    kept = ("wakeful_migration", "wakeful_migration_detail", "wakeful_origin")
    ours = [name for name in tables if name.startswith("wakeful_") and name not in kept]
    others = [f'"{name}"' for name in tables if not name.startswith("wakeful_")]
    return "; ".join(
        [
            "begin",
            f"lock table {', '.join(ours)} in access exclusive mode",
            *(f"delete from {name}" for name in ours),
            *(f"select setval('\"{name}\"', 1, false)" for name in numbers),
            *([f"truncate {', '.join(others)} restart identity"] if others else []),
            "commit",
        ]
    )


async def names(connection: Any, statement: str) -> list[str]:
    return [row[0] for row in await connection.fetch(statement)]


async def make_ready(url: str, prepare: Prepare | None) -> None:
    database = open_database(url, SystemClock())
    try:
        await database.open(migrate=True)
    finally:
        await database.close()
    made = prepare(url) if prepare is not None else None
    if made is not None:
        await made


def with_schema(url: str, name: str) -> str:
    """The address of the same database with this schema as the default."""
    parts = urlsplit(url)
    query = f"{parts.query}&" if parts.query else ""
    return urlunsplit(parts._replace(query=f"{query}search_path={quote(name)}"))


async def connect(url: str) -> Any:
    import asyncpg

    return await asyncpg.connect(url)


async def execute(url: str, statement: str) -> None:
    connection = await connect(url)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()
