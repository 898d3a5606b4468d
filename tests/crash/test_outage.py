"""PostgreSQL fails under load, in every way a database and a network can: everything goes on by itself, nothing is lost,
and nothing is done twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx2
import pytest

from crash.conftest import prepare
from crash.harness import ChildProcess, Nursery, Place
from crash.orders import check
from support.fault_proxy import FaultProxy
from wakeful.testing.ports import free_port
from wakeful.testing.postgres_server import PostgresServer, PostgresUnavailable
from wakeful.testing.waiting import until

LISTENING = "select 1 from pg_stat_activity where datname = current_database() and query ilike 'listen%'"
KILL_BACKENDS = (
    "select pg_terminate_backend(pid) from pg_stat_activity "
    "where datname = current_database() and pid <> pg_backend_pid() and application_name like 'wakeful%'"
)


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


@dataclass
class Load:
    """Workers, a client that sends orders, and an HTTP intake, all on one database."""

    place: Place
    workers: list[ChildProcess]
    client: ChildProcess
    intake: ChildProcess
    http: httpx2.AsyncClient

    async def progress(self, runs: int = 6) -> None:
        """Wait until so many more runs are done, of whatever kind, and everybody listens again."""
        before = await self.done()
        await until(lambda: self.is_done(before + runs))
        await until(lambda: self.listeners(len(self.workers)))

    async def done(self) -> int:
        return (await self.place.states()).get("done", 0)

    async def is_done(self, count: int) -> bool:
        return await self.done() >= count

    async def listeners(self, count: int) -> bool:
        return len(await self.place.query(LISTENING)) == count

    async def post(self, identifier: str) -> int:
        event = {"specversion": "1.0", "type": "nobody.cares", "source": "/test", "id": identifier}
        return (await self.http.post("/v1/events", json=event)).status_code

    async def posts(self, identifier: str, status: int) -> bool:
        return await self.post(identifier) == status

    async def finish(self) -> None:
        """No more orders; all that were sent are done, once."""
        self.client.signal(15)
        count = (await self.client.says("sent"))["count"]
        assert await self.client.ends() == 0
        await until(lambda: self.is_done(2 * count))
        for one in [*self.workers, self.intake]:
            await one.stops()
            assert "Traceback" not in one.log
            assert "the executor failed" not in one.log
        assert {line["status"] for line in self.client.said("accepted")} <= {"accepted", "duplicate"}
        await check(self.place, list(range(1, count + 1)), kills=0)


@asynccontextmanager
async def load(
    server: PostgresServer, nursery: Nursery, folder: Path, *, workers: int, port: int | None = None
) -> AsyncIterator[Load]:
    """`port`: of a proxy before the server."""
    name = await server.create_database()
    await prepare(server.dsn(name), folder)
    place = Place(server.dsn(name), folder)
    address = server.dsn(name, port=port)
    http_port = free_port()
    more = {"lease": 30.0, "command_timeout": 1.0}
    async with AsyncExitStack() as stack:
        children = []
        for plan in [
            place.plan(**more, port=http_port, work=False),
            place.plan(**more, senders=2, work=False),
            *(place.plan(**more) for _ in range(workers)),
        ]:
            plan.store = address
            children.append(await stack.enter_async_context(nursery.child(plan)))
        http = await stack.enter_async_context(
            httpx2.AsyncClient(base_url=f"http://127.0.0.1:{http_port}", timeout=60.0)
        )
        stack.push_async_callback(place.disconnect)
        intake, client, *working = children
        await intake.says("serving")
        yield Load(place, working, client, intake, http)


async def test_the_server_is_restarted_crashes_and_loses_its_backends_postgres(
    server: PostgresServer, nursery: Nursery, tmp_path: Path
):
    async with load(server, nursery, tmp_path, workers=2) as under:
        await under.progress()

        await asyncio.to_thread(server.stop)
        await under.client.says("unavailable")
        assert await under.post("while it is away") == 503
        assert (await under.http.get("/healthz")).status_code == 200
        assert (await under.http.get("/readyz")).status_code == 503
        await asyncio.to_thread(server.start)
        await until(lambda: under.posts("while it is away", 202))
        await under.progress()

        await asyncio.to_thread(server.restart, crash=True)
        await under.progress()

        for _ in range(3):
            await under.place.query(KILL_BACKENDS)
            await under.progress()
        await under.finish()


async def test_connections_are_cut_in_commit_and_swallowed_postgres(
    server: PostgresServer, nursery: Nursery, tmp_path: Path
):
    async with (
        FaultProxy("127.0.0.1", server.port) as proxy,
        load(server, nursery, tmp_path, workers=1, port=proxy.port) as under,
    ):
        await under.progress()
        for number in range(8):
            # The n-th COMMIT from now on: of the worker, of its user's transaction, or of the client.
            cut = proxy.cut(b"COMMIT", after=number % 2 == 1, occurrence=1 + number)
            await asyncio.wait_for(cut.done.wait(), 60)
            await under.progress()

        proxy.reset()
        await under.progress()

        proxy.blackhole()
        refused = asyncio.create_task(under.post("swallowed"))
        await under.client.says("unavailable", times=len(under.client.said("unavailable")) + 1)
        assert await refused == 503
        await proxy.pass_through()
        await until(lambda: under.posts("swallowed", 202))
        await under.progress()

        proxy.refuse()
        proxy.reset()
        await until(lambda: under.posts("refused", 503))
        await proxy.pass_through()
        await until(lambda: under.posts("refused", 202))
        await under.progress()
        await under.finish()
