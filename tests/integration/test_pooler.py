"""A process whose connections go through a pooler in transaction mode, but for the two that need a session of their own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from support.pooler import PgBouncer, Pooler, has_pgbouncer
from wakeful import App, ConfigError, Operation, Run, action, on
from wakeful.runtime import Runtime
from wakeful.testing.postgres_server import PostgresServer
from wakeful.testing.waiting import PATIENCE

pytestmark = pytest.mark.postgres

real = pytest.param("pgbouncer", marks=pytest.mark.skipif(not has_pgbouncer(), reason="no pgbouncer here"))


@pytest.fixture(params=["ours", real])
async def pooled(
    request: pytest.FixtureRequest, postgres_server: PostgresServer, postgres_url: str, tmp_path: Path
) -> AsyncIterator[str]:
    """The address of the test's database through a pooler."""
    name = postgres_url.rpartition("/")[2]
    one: Any = Pooler(postgres_server) if request.param == "ours" else PgBouncer(postgres_server, tmp_path)
    async with one as pooler:
        yield pooler.dsn(name)


MakeApp = Callable[..., App]


@pytest.fixture
def make(pooled: str, postgres_url: str) -> MakeApp:
    def app(**options: Any) -> App:
        return App("app", store=pooled, listen_store=postgres_url, **options)

    return app


async def book(db: Any, amount: int) -> int:
    await db.execute("create table if not exists booking (amount bigint)")
    await db.execute("insert into booking values ($1)", amount)
    return int(await db.fetchval("select sum(amount) from booking"))


def double(number: int) -> int:
    return 2 * number


@action(safety="idempotent")
async def post(op: Operation, number: int) -> int:
    return number


def declared(app: App, heard: asyncio.Queue[Any]) -> App:
    @app.agent(on("go"), key="data.key")
    async def agent(run: Run) -> int:
        number = await run.step(double, run.event.data["number"])
        async with run.lock("book"):
            total = await run.transaction(book, number)
        await run.act(post, number)
        run.send("log", {"total": total})
        await run.sleep("10ms")
        answer = await run.wait_for("answer", subject=run.event.id, timeout="1m")
        heard.put_nowait((run.event.id, number, answer.data))
        return total

    return app


async def test_everything_works(make: MakeApp, postgres_url: str):
    """Two processes, so that one hears of what the other one stored."""
    heard: asyncio.Queue[Any] = asyncio.Queue()
    sender = declared(make(), heard)
    async with declared(make(), heard).running() as runtime, sender.running(worker=False), asyncio.timeout(PATIENCE):
        receipts = [await sender.emit("go", {"number": n, "key": str(n % 3)}, id=str(n)) for n in range(10)]
        for number in range(10):
            await sender.emit("answer", number, subject=str(number), id=f"answer {number}")
        got = sorted([await heard.get() for _ in range(10)], key=lambda one: int(one[0]))
        assert got == [(str(number), 2 * number, number) for number in range(10)]
        await runtime.drain()
        runs = [await runtime.reader.run(receipt.runs[0]) for receipt in receipts]
    assert [run and run["state"] for run in runs] == ["done"] * 10
    assert max(run["output"] for run in runs if run) == sum(range(0, 20, 2))


async def test_sessions_carry_nothing_from_one_transaction_to_the_next(make: MakeApp, postgres_url: str):
    """What the journal sets for its transactions ends with them: the sessions are others' too."""
    async with make().running() as runtime:
        await runtime.app.emit("nothing")
        for _ in range(5):
            rows = await runtime.database.fetch("read_time", None)
            assert rows
        connection = await runtime.database.connections.connect()  # type: ignore[attr-defined]
        try:
            for _ in range(4):
                assert await connection.fetchval("select current_setting('enable_seqscan')") == "on"
        finally:
            await connection.close()


async def test_a_pooler_without_the_servers_own_address_is_refused(pooled: str):
    app = App("app", store=pooled)
    with pytest.raises(ConfigError, match=r"is a pooler.*WAKEFUL_LISTEN_STORE"):
        async with app.running():
            pass


async def test_the_servers_own_address_must_be_that_of_the_same_database(pooled: str, postgres_server: PostgresServer):
    app = App("app", store=pooled, listen_store=postgres_server.dsn("postgres"))
    with pytest.raises(ConfigError, match="not the database behind"):
        async with app.running():
            pass


async def test_the_settings_say_the_same(pooled: str, postgres_url: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("WAKEFUL_STORE", pooled)
    monkeypatch.setenv("WAKEFUL_LISTEN_STORE", postgres_url)
    async with App("app").running() as runtime:
        assert (await runtime.reader.runs())["runs"] == []


OURS = "select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"


class TestBudget:
    """`connections=` counts all of a process."""

    async def test_four_are_enough_for_everything(self, postgres_url: str):
        heard: asyncio.Queue[Any] = asyncio.Queue()
        app = declared(App("app", store=postgres_url, connections=4), heard)
        watching = await asyncpg.connect(postgres_url)
        most = 0
        try:
            async with app.running() as runtime, asyncio.timeout(PATIENCE):
                await runtime.lookout.stop()
                for number in range(20):
                    await app.emit("go", {"number": number, "key": str(number)}, id=str(number))
                    await app.emit("answer", number, subject=str(number), id=f"answer {number}")
                    most = max(most, await watching.fetchval(OURS))
                while heard.qsize() < 20:
                    most = max(most, await watching.fetchval(OURS))
                await runtime.drain()
                assert await watching.fetchval(OURS) <= 4
        finally:
            await watching.close()
        assert most <= 5  # the watchdog writes on one of its own, at the start and while a run is stuck

    @pytest.mark.parametrize("few", [3, 0, True, "4"])
    def test_fewer_are_refused_with_what_they_are_for(self, few: Any):
        with pytest.raises(ConfigError, match=r"App\('app'\): connections must be .* from 4 up.*listening"):
            App("app", connections=few)

    async def test_the_setting(self, postgres_url: str, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setenv("WAKEFUL_CONNECTIONS", "three")
        with pytest.raises(ConfigError, match="WAKEFUL_CONNECTIONS must be a whole number"):
            Runtime(App("app", store=postgres_url))
        monkeypatch.setenv("WAKEFUL_CONNECTIONS", "3")
        with pytest.raises(ConfigError, match="connections must be a whole number from 4 up, not 3"):
            Runtime(App("app", store=postgres_url))
