"""Waking up: what another process made ready is heard of, without polling."""

from __future__ import annotations

import asyncio
import sys
import textwrap
import threading
from collections.abc import Sequence

import asyncpg
import pytest

from support.apps import NewApp, working
from support.fault_proxy import FaultProxy
from wakeful import App, Run, SystemClock, on
from wakeful.runtime import Runtime
from wakeful.stores.verbs.claim import ClaimRuns
from wakeful.testing.postgres_server import PostgresServer

LISTENING = "select count(*) from pg_stat_activity where datname = current_database() and query ilike 'listen%'"


@pytest.fixture(autouse=True)
def no_safety_net(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the look that a worker takes anyway every few seconds: what is tested is that it is woken."""
    monkeypatch.setattr("wakeful.execution.worker.LOOK_ANYWAY_EVERY", 3600.0)
    monkeypatch.setattr("wakeful.execution.lookout.EVERY", 3600.0)


@pytest.fixture
def heard() -> asyncio.Queue[str]:
    return asyncio.Queue()


def listening(app: App, heard: asyncio.Queue[str]) -> App:
    @app.agent(on("go"))
    async def agent(run: Run) -> None:
        heard.put_nowait(run.event.id)

    return app


async def test_a_worker_hears_of_an_event_that_another_process_accepted(new_app: NewApp, heard):
    worker = listening(new_app(clock=None), heard)
    sender = listening(new_app(clock=None), heard)
    async with working(worker), working(sender, worker=False):
        for number in range(3):
            await sender.emit("go", id=str(number))
            assert await heard.get() == str(number)


async def test_a_worker_hears_of_an_event_whose_key_is_free(new_app: NewApp, heard):
    """Nobody is before it, so it is due as it is stored."""

    def keyed(app: App) -> App:
        @app.agent(on("go"), key="event.id")
        async def agent(run: Run) -> None:
            heard.put_nowait(run.event.id)

        return app

    sender = keyed(new_app(clock=None))
    async with working(keyed(new_app(clock=None))), working(sender, worker=False):
        for number in range(3):
            await sender.emit("go", id=str(number))
            assert await asyncio.wait_for(heard.get(), 30) == str(number)


async def test_a_worker_hears_of_an_event_that_a_real_other_process_accepted(new_app: NewApp, heard, store_url: str):
    child = textwrap.dedent(
        """
        import asyncio, sys
        from wakeful import App, on

        app = App("app", store=sys.argv[1])

        @app.agent(on("go"))
        async def agent(run): ...

        asyncio.run(app.emit("go", id="from outside"))
        """
    )
    async with working(listening(new_app(clock=None), heard)):
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", child, store_url)
        assert await heard.get() == "from outside"
        assert await process.wait() == 0


async def test_a_busy_worker_leaves_an_event_to_an_idle_one(new_app: NewApp, heard):
    """The first has no room: the second is told, and takes it."""
    release = asyncio.Event()
    busy, idle = new_app(clock=None, in_flight=1), new_app(clock=None)

    @busy.agent(on("go"), name="agent")
    async def holds(run: Run) -> None:
        heard.put_nowait("held")
        await release.wait()

    async with working(busy):
        await busy.emit("go", id="first")
        assert await heard.get() == "held"
        async with working(listening(idle, heard)):
            await busy.emit("go", id="second")
            assert await heard.get() == "second"
        release.set()


async def test_a_released_run_is_heard_of(new_app: NewApp, heard):
    """One that stops gives back what runs, and another takes it up at once."""
    leaving, staying = new_app(clock=None), new_app(clock=None, in_flight=1)

    @leaving.agent(on("go"), name="agent")
    async def holds(run: Run) -> None:
        heard.put_nowait("held")
        await asyncio.Event().wait()

    async with working(leaving) as runtime:
        await leaving.emit("go", id="1")
        assert await heard.get() == "held"
        async with working(listening(staying, heard)):
            await runtime.stop(grace=0)
            assert await heard.get() == "1"


async def test_a_hint_that_comes_while_a_claim_is_under_way_is_not_lost(
    new_app: NewApp, heard, dialect: str, store_url: str
):
    """Forced in order: the claim has looked and found nothing, then an event is accepted, then the claim comes back."""
    loop = asyncio.get_running_loop()
    worker = listening(new_app(clock=None), heard)
    armed = threading.Event()

    def in_this_process() -> None:
        """The probe speaks from the writer's thread: the event waits for the transaction after this one."""
        handed_in = threading.Event()

        async def emit() -> None:
            sending = asyncio.ensure_future(worker.emit("go", id="meanwhile"))
            loop.call_soon(handed_in.set)
            await sending

        asyncio.run_coroutine_threadsafe(emit(), loop)
        assert handed_in.wait(60)

    def in_another_process() -> None:
        """The probe speaks in the event loop: the event is committed, and its notification sent, while that stands still."""
        sender = listening(new_app(clock=None), heard)
        thread = threading.Thread(target=lambda: asyncio.run(sender.emit("go", id="meanwhile")))
        thread.start()
        thread.join(60)

    def probe(where: str, requests: Sequence[object]) -> None:
        if where == "within" and armed.is_set() and [type(one) for one in requests] == [ClaimRuns]:
            armed.clear()
            in_this_process() if dialect == "sqlite" else in_another_process()

    async with working(worker, probe=probe) as runtime:
        if dialect == "postgres":
            await until_listening(store_url)
        await runtime.drain()
        armed.set()
        runtime.worker.look()
        assert await heard.get() == "meanwhile"


@pytest.mark.postgres
class TestListening:
    async def test_it_listens_again_after_its_connection_was_cut(self, postgres_url: str, heard):
        worker = listening(App("app", store=postgres_url), heard)
        sender = listening(App("app", store=postgres_url), heard)
        async with working(worker), working(sender, worker=False):
            connection = await asyncpg.connect(postgres_url)
            try:
                await until(connection, LISTENING, 1)
                await connection.execute(
                    "select pg_terminate_backend(pid) from pg_stat_activity "
                    "where datname = current_database() and query ilike 'listen%'"
                )
                await sender.emit("go", id="in the gap")
                assert await heard.get() == "in the gap"
                await until(connection, LISTENING, 1)
                await sender.emit("go", id="after it")
                assert await heard.get() == "after it"
            finally:
                await connection.close()

    async def test_it_listens_again_after_the_database_could_not_be_reached(
        self, postgres_server: PostgresServer, postgres_url: str, heard
    ):
        async with FaultProxy("127.0.0.1", postgres_server.port) as proxy:
            name = postgres_url.rpartition("/")[2]
            worker = listening(App("app", store=postgres_server.dsn(name, port=proxy.port)), heard)
            sender = listening(App("app", store=postgres_url), heard)
            connection = await asyncpg.connect(postgres_url)
            try:
                async with working(worker) as runtime, working(sender, worker=False):
                    await until(connection, LISTENING, 1)
                    refused = said_by_database(runtime, "not listening")
                    proxy.refuse()
                    proxy.reset()
                    await refused.wait()
                    await proxy.pass_through()
                    await until(connection, LISTENING, 1)
                    await sender.emit("go", id="back again")
                    assert await heard.get() == "back again"
            finally:
                await connection.close()


def said_by_database(runtime: Runtime, words: str) -> asyncio.Event:
    """Set when the database's log says this for the second time: the first try to connect again has failed."""
    said = asyncio.Event()
    database = runtime.database
    inner = database.listener.log  # type: ignore[attr-defined]  # PostgreSQL's

    class Log:
        def __getattr__(self, name: str) -> object:
            return getattr(inner, name)

        def debug(self, message: str, **fields: object) -> None:
            if words in message:
                said.set()
            inner.debug(message, **fields)

    database.listener.log = Log()  # type: ignore[attr-defined]
    return said


async def until_listening(url: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        await until(connection, LISTENING, 1)
    finally:
        await connection.close()


async def until(connection: asyncpg.Connection, question: str, answer: object) -> None:
    """Ask the database until it gives this answer."""
    async with asyncio.timeout(60):
        while await connection.fetchval(question) != answer:
            pass


async def test_the_clock_of_an_app_is_the_machines_unless_told():
    async def nothing(run: Run) -> None: ...

    app = App("app", store="sqlite:///unused.db")
    app.agent(on("go"))(nothing)
    assert isinstance(Runtime(app).clock, SystemClock)
