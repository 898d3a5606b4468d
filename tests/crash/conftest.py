"""Stores to crash on. Each place starts as a copy of a prepared one: the schema, and a table of the user's own."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from crash.children.workload import BOOKED
from crash.harness import Nursery, Place
from wakeful.clock import SystemClock
from wakeful.stores.opening import open_database
from wakeful.testing.postgres_server import PostgresServer

NewPlace = Callable[[], Awaitable[Place]]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker("crash")
            if "postgres" in item.name:
                item.add_marker("postgres")


async def prepare(url: str, folder: Path) -> None:
    database = open_database(url, SystemClock())
    await database.open(migrate=True)
    await database.close()
    place = Place(url, folder)
    await place.query(BOOKED)
    await place.disconnect()


@pytest.fixture
async def new_sqlite_place(tmp_path: Path) -> NewPlace:
    template = tmp_path / "template.db"
    await prepare(f"sqlite:///{template}", tmp_path)

    numbers = itertools.count(1)

    async def make() -> Place:
        folder = tmp_path / f"place-{next(numbers)}"
        folder.mkdir()
        shutil.copy(template, folder / "wakeful.db")
        return Place(f"sqlite:///{folder}/wakeful.db", folder)

    return make


@pytest.fixture
async def new_postgres_place(postgres_server: PostgresServer, tmp_path: Path) -> AsyncIterator[NewPlace]:
    """Databases that are emptied and used again: to make one and drop it costs the server three checkpoints."""
    template = await postgres_server.create_database()
    await prepare(postgres_server.dsn(template), tmp_path)
    places: list[Place] = []
    made: list[str] = []
    free: list[str] = []
    numbers = itertools.count(1)

    async def make() -> Place:
        if free:
            name = free.pop()
        else:
            name = await postgres_server.create_database(template=template)
            made.append(name)
        folder = tmp_path / f"place-{next(numbers)}"
        folder.mkdir()
        places.append(Place(postgres_server.dsn(name), folder, on_leave=lambda: free.append(name)))
        return places[-1]

    yield make
    for place in places:
        await place.disconnect()
    for name in [template, *made]:
        await postgres_server.drop_database(name)


@pytest.fixture(params=["sqlite", "postgres"])
def new_place(request: pytest.FixtureRequest) -> NewPlace:
    made: NewPlace = request.getfixturevalue(f"new_{request.param}_place")
    return made


@pytest.fixture
async def place(new_place: NewPlace) -> Place:
    return await new_place()


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    one = Nursery()
    yield one
    one.close()
