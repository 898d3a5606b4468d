"""Backups of a store, made and restored as an operator does it, with the programs that an operator uses."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import apsw
import asyncpg
import pytest

from wakeful.settings import sqlite_path
from wakeful.testing.postgres_server import PostgresServer, PostgresUnavailable, find_binaries

Restore = Callable[[], Awaitable[str]]
BackUp = Callable[[str], Awaitable[Restore]]

# More transactions than a new cluster has had when a small dump was restored into it.
BUSY = "do $$ begin for i in 1..20000 loop perform pg_current_xact_id(); commit; end loop; end $$"


@pytest.fixture(scope="session")
def other_server() -> Iterator[PostgresServer]:
    """Another cluster, which has done nothing yet."""
    server = PostgresServer(fsync=False)
    try:
        server.start()
    except PostgresUnavailable as reason:
        pytest.skip(f"PostgreSQL cannot be had here: {reason}")
    try:
        yield server
    finally:
        server.close()


@pytest.fixture(scope="session")
def busy_server(postgres_server: PostgresServer) -> PostgresServer:
    """The usual one, which has done more than another has when a store was restored there."""

    async def work() -> None:
        connection = await asyncpg.connect(postgres_server.dsn())
        await connection.execute(BUSY)
        await connection.close()

    asyncio.run(work())
    return postgres_server


@pytest.fixture
def back_up(request: pytest.FixtureRequest, tmp_path: Path) -> BackUp:
    """Backs a store up while it is at work. What is returned restores it elsewhere, and gives the address."""
    if "dialect" not in request.fixturenames or request.getfixturevalue("dialect") == "postgres":
        request.getfixturevalue("busy_server")

    async def back_up_file(url: str) -> Restore:
        copy = tmp_path / "backup.db"
        with contextlib.closing(apsw.Connection(str(sqlite_path(url)))) as connection:
            connection.execute("vacuum into ?", (str(copy),))

        async def restore() -> str:
            return f"sqlite:///{copy}"

        return restore

    async def back_up_database(url: str) -> Restore:
        other: PostgresServer = request.getfixturevalue("other_server")
        programs = find_binaries()
        if not (programs / "pg_dump").exists():
            pytest.skip("pg_dump cannot be had here")
        dump = tmp_path / "backup.dump"
        await run(str(programs / "pg_dump"), "--format=custom", f"--file={dump}", url)

        async def restore() -> str:
            into = other.dsn(await other.create_database())
            await run(str(programs / "pg_restore"), f"--dbname={into}", "--exit-on-error", str(dump))
            return into

        return restore

    async def choose(url: str) -> Restore:
        return await (back_up_database(url) if sqlite_path(url) is None else back_up_file(url))

    return choose


async def run(*command: str) -> None:
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
