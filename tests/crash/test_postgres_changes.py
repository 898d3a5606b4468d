"""Row changes are taken in once, whoever dies: the reader at any moment of a commit, the server that is read, or both."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from crash.harness import KILLED, TESTS, Place
from support.shop import TABLE, Shop
from wakeful import App, Run, postgres_changes
from wakeful.clock import SystemClock
from wakeful.connect.postgres.reader import PostgresReader
from wakeful.runtime import Runtime
from wakeful.stores.verbs.sources import find_source
from wakeful.stores.verbs.take_in import Item
from wakeful.testing.children import ChildProcess, Nursery
from wakeful.testing.postgres_server import PostgresServer
from wakeful.testing.waiting import PATIENCE
from wakeful.triggers.source import Context

ROWS = 10_000
BURST = [  # one transaction that must be cut, and many that fit together
    "insert into orders select n, 'new', n from generate_series(1, 6000) n",
    *(f"insert into orders select n, 'new', n from generate_series({n}, {n + 99}) n" for n in range(6001, ROWS, 100)),
]


@pytest.fixture(scope="module")
def readers() -> Iterator[Nursery]:
    with Nursery("crash.children.changes:main", path=[str(TESTS)]) as one:
        yield one


@pytest.fixture
async def own_server() -> AsyncIterator[Shop]:
    """A server to be killed."""
    with PostgresServer(fsync=False, settings={"wal_level": "logical"}) as server:
        made = Shop(server, await server.create_database())
        await made.execute(TABLE)
        yield made
        await made.close()


def a_reader(readers: Nursery, place: Place, shop: Shop, **more: object) -> ChildProcess:
    return readers.bear({"store": place.url, "shop": shop.dsn, **more}, place.folder)


async def count(place: Place) -> int:
    ((found,),) = await place.query("select count(*) from wakeful_event")
    return int(found)


async def all_came_once(place: Place) -> None:
    """Every row is one event with one run."""
    async with asyncio.timeout(PATIENCE):
        while await count(place) < ROWS:
            await asyncio.sleep(0.05)
    envelopes = await place.query("select envelope from wakeful_event")
    assert sorted(json.loads(text)["data"]["new"]["id"] for (text,) in envelopes) == list(range(1, ROWS + 1))
    ((runs,),) = await place.query("select count(*) from wakeful_run")
    assert runs == ROWS


async def make_the_slot(readers: Nursery, place: Place, shop: Shop) -> None:
    async with a_reader(readers, place, shop) as first:
        await first.says("reading")


async def test_a_reader_that_is_killed_at_its_commits_loses_and_doubles_nothing(
    place: Place, readers: Nursery, shop: Shop
):
    """Before the commit, before it is known, and before the slot is told; each with the rest of a cut transaction to come."""
    await make_the_slot(readers, place, shop)
    await shop.execute(*BURST)
    for point in ("before", "within", "after"):
        async with a_reader(readers, place, shop, die_at=[point, 2]) as one:
            assert await one.ends() == KILLED
        assert 0 < await count(place) < ROWS
    async with a_reader(readers, place, shop):
        await all_came_once(place)
    ((repeated,),) = await place.query("select repeated from wakeful_source")
    assert repeated == 0  # the cursor tells what is stored, also inside a transaction


async def test_the_second_reader_takes_over(place: Place, readers: Nursery, shop: Shop):
    async with a_reader(readers, place, shop) as first:
        await first.says("reading")
        async with a_reader(readers, place, shop) as second:
            await shop.execute(BURST[0])
            first.kill()
            await shop.execute(*BURST[1:])
            await all_came_once(place)
            await second.says("reading")


@pytest.mark.parametrize("dies", ["server", "both"])
async def test_the_server_is_killed_in_the_middle(place: Place, readers: Nursery, own_server: Shop, dies: str):
    await make_the_slot(readers, place, own_server)
    async with a_reader(readers, place, own_server) as reader:
        await reader.says("reading")
        await own_server.execute(*BURST[:20])
        while await count(place) < 2_000:
            await asyncio.sleep(0.01)
        await asyncio.to_thread(own_server.server.kill)
        if dies == "both":
            reader.kill()
        await asyncio.to_thread(own_server.server.start)
        await own_server.execute(*BURST[20:])
        if dies == "server":
            await all_came_once(place)
            return
    async with a_reader(readers, place, own_server):
        await all_came_once(place)


async def test_a_server_can_shut_down_while_nobody_takes_what_was_read(own_server: Shop):
    """It waits for its readers: one that is paused, or whose store is gone, must not keep it."""
    await own_server.execute("checkpoint")
    reader = PostgresReader(
        [postgres_changes(own_server.dsn, table="orders")], Context("app", "host", SystemClock(), NoMemory())
    )
    await reader.open(None)
    await own_server.execute("insert into orders values (1, 'new', 1)")
    await asyncio.to_thread(own_server.server.restart)
    await reader.close()
    log = (own_server.server.folder / "log").read_text()
    assert "not properly shut down" not in log


class NoMemory:
    async def items_of(self, app: str, source: str) -> list[Item]:
        return []


async def test_an_orderly_restart_of_the_server(own_server: Shop, tmp_path: Path):
    """In this process, and with runs: a server that shuts down waits until its log was read."""
    app, seen = App("app", store=f"sqlite:///{tmp_path}/wakeful.db"), asyncio.Queue[int]()

    @app.agent(postgres_changes(own_server.dsn, table="orders"))
    async def note(run: Run) -> None:
        seen.put_nowait(run.event.data["new"]["id"])

    runtime = Runtime(app)
    await runtime.open()
    await runtime.start()
    try:
        async with asyncio.timeout(PATIENCE):
            (reading,) = runtime.sources.readings.values()
            while reading.state != "reading":
                await asyncio.sleep(0.01)
            for number in (1, 2):
                await own_server.execute(f"insert into orders values ({number}, 'new', 1)")
                assert await seen.get() == number
                await asyncio.to_thread(own_server.server.restart)
                (await own_server.connection()).terminate()
            await own_server.execute("insert into orders values (3, 'new', 1)")
            assert await seen.get() == 3
    finally:
        await runtime.stop()
    assert seen.empty()


async def test_a_server_that_holds_the_store_too_stops_at_once_and_nothing_is_lost_or_repeated(own_server: Shop):
    """A shutdown waits for readers of its log. One that cannot store what it read must not make it wait until it times out."""
    app, seen = App("app", store=own_server.dsn), asyncio.Queue[int]()

    @app.agent(postgres_changes(own_server.dsn, table="orders"))
    async def note(run: Run) -> None:
        seen.put_nowait(run.event.data["new"]["id"])

    runtime = Runtime(app)
    await runtime.open(migrate=True)
    await runtime.start()
    try:
        async with asyncio.timeout(PATIENCE):
            (reading,) = runtime.sources.readings.values()
            while reading.state != "reading":
                await asyncio.sleep(0.01)
            for number in (1, 2):
                await own_server.execute(f"insert into orders values ({number}, 'new', 1)")
                assert await seen.get() == number
                # What others write moves the slot too: a stop finds something that is not confirmed yet.
                await own_server.execute(
                    "create table other as select n from generate_series(1, 1000) n", "drop table other"
                )
                await asyncio.to_thread(own_server.server.restart)
                (await own_server.connection()).terminate()
            await own_server.execute("insert into orders values (3, 'new', 1)")
            assert await seen.get() == 3
        source = await find_source(runtime.store.database, "app", reading.reader.name)
    finally:
        await runtime.stop()
    assert seen.empty()
    assert source is not None
    assert source.repeated == 0
    log = (own_server.server.folder / "log").read_text()
    assert "terminating walsender process due to replication timeout" not in log
    assert "not properly shut down" not in log
