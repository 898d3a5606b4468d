"""The database is restarted, and crashes, while several workers are at work: all of them go on by themselves."""

from __future__ import annotations

import asyncio
from collections import Counter as Tally
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from crash.conftest import prepare
from crash.harness import Place
from crash.orders import check, order
from fleet.harness import Fleet, Nursery
from wakeful.testing.children import ChildProcess
from wakeful.testing.postgres_server import PostgresServer, PostgresUnavailable

WORKERS = 3
AT_ONCE = 2


@pytest.fixture
async def server() -> AsyncIterator[PostgresServer]:
    """A server of our own, to be stopped and killed."""
    own = PostgresServer(fsync=False)
    try:
        own.start()
    except PostgresUnavailable as reason:
        pytest.skip(f"PostgreSQL cannot be had here: {reason}")
    try:
        yield own
    finally:
        own.close()


async def test_all_workers_go_on_after_a_restart_and_after_a_crash(
    server: PostgresServer, nursery: Nursery, tmp_path: Path
):
    name = await server.create_database()
    await prepare(server.dsn(name), tmp_path)
    place = Place(server.dsn(name), tmp_path)
    fleet = Fleet(place, nursery)
    gate = fleet.gate("all")
    async with AsyncExitStack() as stack:
        stack.push_async_callback(place.disconnect)
        workers = [
            await stack.enter_async_context(fleet.worker(gate=gate, in_flight=AT_ONCE, lease=30))
            for _ in range(WORKERS)
        ]
        await all_have_their_part(fleet, workers, gate, "before")
        for number, crash in enumerate((False, True)):
            await fleet.emit(*(order(10 * number + one) for one in range(10)))
            await asyncio.to_thread(server.restart, crash=crash)
            await all_have_their_part(fleet, workers, gate, f"after-{number}")
        await fleet.come_to(done=3 * WORKERS * AT_ONCE + 2 * 20)
        for worker in workers:
            await worker.stops()
            assert "Traceback" not in worker.log
            assert "declared this one dead" not in worker.log
        await place.query("delete from wakeful_run where agent = 'wait'")
        await check(place, list(range(20)), kills=0)


async def all_have_their_part(fleet: Fleet, workers: list[ChildProcess], gate: Path, name: str) -> None:
    """As many runs as there is room for in all of them together are at the gate at once."""
    events = [f"{name}-{number}" for number in range(len(workers) * AT_ONCE)]
    await fleet.emit(*(("gate.reached", event, None) for event in events))
    await fleet.have_come("held", events)
    assert Tally(fleet.who(event, "held")[-1] for event in events) == {worker.pid: AT_ONCE for worker in workers}
    for event in events:
        (gate / event).touch()
