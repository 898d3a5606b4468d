"""Stores that are new for each case: files of their own, or a schema of their own in a PostgreSQL that was given."""

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
    """Gives the address of an empty store each time it is asked; what was in the one before may be gone then.

    `store` says of which kind: a postgresql:// address is used for a schema of its own, which is dropped in the end, and
    nothing else in that database is touched. `prepare` is told the address once, to make tables of its own there.
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
    """A script that empties all tables of a schema. TRUNCATE would make new files for each of them and for their indexes, and
    take a hundred times as long; it is left to tables that are not ours, which may refer to each other. Nobody who is still
    writing gets past the lock.
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
    """The same database, where names without a schema mean this one."""
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
