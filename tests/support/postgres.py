"""Fixtures with a real PostgreSQL: one server for each test process, one new database for each test."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator

import pytest

from wakeful.testing.postgres_server import PostgresServer, PostgresUnavailable


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """Shared by the tests of one process: make your own to stop or kill it."""
    # Logical replication for those who read changes; its slots are counted by server. What the planner knows of a table is the
    # matter of some tests: nobody else may look at it meanwhile.
    settings: dict[str, str | int] = {"wal_level": "logical", "max_replication_slots": 40, "autovacuum": "off"}
    server = PostgresServer(fsync=False, settings=settings)
    try:
        server.start()
    except PostgresUnavailable as reason:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"PostgreSQL cannot be had here: {reason}")
    try:
        yield server
    finally:
        server.close()


@pytest.fixture
async def postgres_dsn(postgres_server: PostgresServer) -> AsyncIterator[str]:
    database = await postgres_server.create_database()
    yield postgres_server.dsn(database)
    await postgres_server.drop_database(database)
