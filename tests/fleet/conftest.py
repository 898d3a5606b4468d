"""Fleets: several real `wakeful worker` processes on one PostgreSQL."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from crash.conftest import prepare
from crash.harness import Place
from fleet.harness import Fleet, Nursery
from wakeful.testing.postgres_server import PostgresServer


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker("crash")
            item.add_marker("postgres")


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    one = Nursery()
    yield one
    one.close()


@pytest.fixture
async def fleet(postgres_server: PostgresServer, nursery: Nursery, tmp_path: Path) -> AsyncIterator[Fleet]:
    """A fleet without workers, on a database of its own."""
    name = await postgres_server.create_database()
    await prepare(postgres_server.dsn(name), tmp_path)
    place = Place(postgres_server.dsn(name), tmp_path)
    try:
        yield Fleet(place, nursery)
    finally:
        await place.disconnect()
        await postgres_server.drop_database(name)
