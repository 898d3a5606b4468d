"""An event against a wait, on PostgreSQL, where neither sees the other while both are being stored. Each order is forced."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from support.apps import NewApp, go, working
from wakeful import App, Run, on
from wakeful.clock import VirtualClock
from wakeful.runtime import Runtime
from wakeful.stores.verbs.waits import LookAgain

asyncpg = pytest.importorskip("asyncpg")


pytestmark = pytest.mark.postgres


@pytest.fixture
def store_url(postgres_url: str) -> str:
    """SQLite has one writer: there is no such moment."""
    return postgres_url


def listening(app: App) -> App:
    @app.agent(on("go"))
    async def listen(run: Run) -> Any:
        return (await run.wait_for("news")).data

    return app


async def state_of(runtime: Runtime, run: dict[str, Any]) -> tuple[str, Any]:
    found = await runtime.reader.run(run["id"])
    assert found is not None
    return found["state"], found["output"]


async def settled(runtime: Runtime) -> None:
    """What the service does by itself."""
    assert runtime.rechecker is not None
    while await runtime.database.fetch("waits_to_recheck", None, runtime.app.name, -(10**15)):
        await runtime.rechecker.run_once()
    await runtime.drain()


async def test_an_event_that_is_being_accepted_while_the_wait_is_registered(app: App, store_url: str):
    async with working(listening(app)) as runtime:
        assert runtime.rechecker is not None
        await runtime.rechecker.stop()
        connection = await asyncpg.connect(store_url)
        try:
            async with connection.transaction():
                await app.emit("news", "spring", within=connection)  # is looking for waits now, and finds none
                run = await go(runtime)  # registers its wait, and finds no event
                await runtime.rechecker.run_once()
                assert await state_of(runtime, run) == ("waiting", None)
        finally:
            await connection.close()
        await settled(runtime)
        assert await state_of(runtime, run) == ("done", "spring")


async def test_it_is_not_settled_as_long_as_such_an_event_may_come(app: App, store_url: str):
    async with working(listening(app)) as runtime:
        assert runtime.rechecker is not None
        await runtime.rechecker.stop()
        connection = await asyncpg.connect(store_url)
        try:
            async with connection.transaction():
                await connection.execute("select pg_current_xact_id()")  # any transaction may bring an event
                await go(runtime)
                for _ in range(3):
                    await runtime.rechecker.run_once()
                rows = await runtime.database.fetch("waits_to_recheck", None, "app", -(10**15))
                assert len(rows) == 1
        finally:
            await connection.close()
        await settled(runtime)


async def test_the_process_dies_right_after_it_has_registered(new_app: NewApp, store_url: str, clock: VirtualClock):
    connection = await asyncpg.connect(store_url)
    try:
        first = listening(new_app())
        async with working(first) as dying:
            assert dying.rechecker is not None
            await dying.rechecker.stop()
            transaction = connection.transaction()
            await transaction.start()
            await first.emit("news", "spring", within=connection)
            run = await go(dying)
            await dying.die()
        await transaction.commit()
    finally:
        await connection.close()
    clock.move("1m")
    async with working(listening(new_app())) as runtime:
        await settled(runtime)
        assert await state_of(runtime, run) == ("done", "spring")


async def test_the_wait_is_registered_first_and_the_event_finds_it(app: App, store_url: str):
    async with working(listening(app)) as runtime:
        run = await go(runtime)
        connection = await asyncpg.connect(store_url)
        try:
            async with connection.transaction():
                await app.emit("news", "spring", within=connection)
                assert await state_of(runtime, run) == ("waiting", None)
        finally:
            await connection.close()
        await runtime.drain()
        assert await state_of(runtime, run) == ("done", "spring")


async def test_two_that_bring_the_same_event_s_worth_end_one_wait(app: App):
    """Whoever looks again and whoever accepts may both find it: one of them takes it."""
    async with working(listening(app)) as runtime:
        run = await go(runtime)
        (seq,) = [row[0] for row in await runtime.database.fetch("find_runs", run["id"], run["id"] + "\x01")]
        await asyncio.gather(
            app.emit("news", 1),
            runtime.store.do(LookAgain([seq])),
            app.emit("news", 2),
            runtime.store.do(LookAgain([seq])),
        )
        await runtime.drain()
        state, output = await state_of(runtime, run)
        assert state == "done"
        assert output in {1, 2}


async def test_a_child_that_ends_while_its_caller_is_put_away(new_app: NewApp):
    """Two processes: the child runs in another one, and may end at any moment of its caller's leaving."""
    begun, go_on = asyncio.Event(), asyncio.Event()

    def declare(*, parent: bool) -> App:
        app = new_app()
        if parent:

            @app.agent(on("go"), name="parent")
            async def call(run: Run) -> Any:
                return await run.call("child")

        @app.agent(name="child")
        async def child(run: Run) -> str:
            begun.set()
            await go_on.wait()
            return "grown"

        return app

    async with working(declare(parent=True), worker=True) as first, working(declare(parent=False)) as second:
        receipt = await first.app.emit("go")
        await asyncio.wait_for(begun.wait(), 30)
        go_on.set()
        run: dict[str, Any] = {"id": receipt.runs[0]}
        for _ in range(200):
            await first.drain()
            await second.drain()
            if (await state_of(first, run))[0] == "done":
                break
        assert await state_of(first, run) == ("done", "grown")
