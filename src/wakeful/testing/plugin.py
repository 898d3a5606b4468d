"""The pytest plugin: fixtures for a clock, a store and a world, and the option that chooses the store.

It is loaded wherever Wakeful is installed, so it imports no Wakeful module before a test uses a fixture.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from wakeful.app import App
    from wakeful.clock import VirtualClock
    from wakeful.testing.world import World

    NewWorld = Callable[..., World]

KINDS = ("sqlite", "postgres")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("wakeful").addoption(
        "--wakeful-store",
        default="sqlite",
        metavar="STORE",
        help="the store for the worlds of tests: sqlite (default), postgres (starts a server from a wheel), or "
        "postgresql://… (creates a schema for each test)",
    )


def pytest_configure(config: pytest.Config) -> None:
    chosen = config.getoption("--wakeful-store")
    if chosen not in KINDS and not chosen.startswith(("postgresql://", "postgres://")):
        message = f"--wakeful-store={chosen}: use {', '.join(KINDS)} or postgresql://user@host/database"
        raise pytest.UsageError(message)


@pytest.fixture
def wakeful_clock() -> VirtualClock:
    """A clock that stands still until the world or the test moves it."""
    from wakeful.clock import VirtualClock

    return VirtualClock()


@pytest.fixture(scope="session")
def wakeful_postgres(request: pytest.FixtureRequest) -> Iterator[str | None]:
    """The address of the PostgreSQL server for tests: the given one, or one started here; None on SQLite."""
    chosen: str = request.config.getoption("--wakeful-store")
    if chosen != "postgres":
        yield None if chosen == "sqlite" else chosen
        return
    from wakeful.testing.postgres_server import PostgresServer, PostgresUnavailable

    server = PostgresServer(fsync=False)
    try:
        server.start()
    except PostgresUnavailable as reason:
        pytest.fail(f"--wakeful-store=postgres: {reason}", pytrace=False)
    try:
        yield server.dsn()
    finally:
        server.close()


@pytest.fixture
def wakeful_store(wakeful_postgres: str | None, tmp_path: Path) -> Iterator[str]:
    """The address of a new store, only for this test."""
    if wakeful_postgres is None:
        yield f"sqlite:///{tmp_path / 'wakeful.db'}"
        return
    from wakeful.testing.places import schemas

    # A separate event loop: the test may run its own.
    with asyncio.Runner() as runner:
        made = schemas(wakeful_postgres, None)
        new_store = runner.run(made.__aenter__())
        try:
            yield runner.run(new_store())
        finally:
            runner.run(made.__aexit__(None, None, None))


@pytest.fixture
def wakeful_world(wakeful_store: str, wakeful_clock: VirtualClock) -> NewWorld:
    """Creates worlds on this test's store, for use as `async with` blocks."""
    from wakeful.testing.world import World

    def make(app: App, **options: Any) -> World:
        return World(app, **{"store": wakeful_store, "clock": wakeful_clock, **options})

    return make
