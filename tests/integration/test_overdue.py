"""Waiting work has an age: what waits for too long is an alarm, one for each cause, that says what holds it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from support.apps import NewApp, go, working
from support.stores import OpenStore, forge
from wakeful import App, Persistent, Run, Transient, on
from wakeful.channels import Channel
from wakeful.clock import VirtualClock
from wakeful.runtime import Runtime
from wakeful.stores.request import Actor
from wakeful.stores.verbs.pauses import ChangePause
from wakeful.stores.verbs.redo import RedoRun
from wakeful.watch.facts import Facts
from wakeful.watch.watcher import Watcher


@pytest.fixture
async def outside(stores: OpenStore, store_url: str) -> Watcher:
    """A watcher that has none of the code, at the same store."""
    store = await stores(store_url)
    return Watcher(Facts(store.database), store, time_passes=False)


async def look(watcher: Watcher, runtime: Runtime) -> dict[str, dict[str, Any]]:
    """What is open after one more look."""
    await watcher.run_once()
    return {one["key"]: one for one in (await runtime.reader.alarms(state="open"))["alarms"]}


async def pause(runtime: Runtime, agent: str, *, paused: bool = True) -> None:
    await runtime.store.do(ChangePause("app", agent, paused, by=Actor("ada", "code")))


def busy(app: App, **options: Any) -> App:
    """An agent that does nothing, quickly."""

    @app.agent(on("go"), name="work", owner="platform", **options)
    async def work(run: Run) -> None: ...

    return app


class TestRuns:
    async def test_one_that_is_paused_waits_for_too_long(self, new_app: NewApp, outside: Watcher, clock: VirtualClock):
        async with working(busy(new_app())) as runtime:
            await pause(runtime, "work")
            run = await go(runtime)
            clock.move("5m")
            assert await look(outside, runtime) == {}
            clock.move("1s")
            found = await look(outside, runtime)
            alarm = found["waiting/app/work"]
            assert list(found) == ["waiting/app/work"]
            assert alarm["owner"] == "platform"
            assert alarm["subject"] == "Runs of agent work wait too long to start"
            assert f"run {run['id']} of agent work has been ready since 2026-01-01T00:00:00Z" in alarm["text"]
            assert "paused by ada" in alarm["text"]
            await pause(runtime, "work", paused=False)
            await runtime.drain()
            assert await look(outside, runtime) == {}

    async def test_it_is_one_alarm_however_many_wait(self, new_app: NewApp, outside: Watcher, clock: VirtualClock):
        async with working(busy(new_app())) as runtime:
            await pause(runtime, "work")
            for _ in range(5):
                await go(runtime)
            clock.move("10m")
            await look(outside, runtime)
            found = await look(outside, runtime)
            assert [(key, one["count"]) for key, one in found.items()] == [("waiting/app/work", 1)]

    async def test_a_pause_of_all_is_one_alarm(self, new_app: NewApp, outside: Watcher, clock: VirtualClock):
        app = busy(new_app())

        @app.agent(on("go"))
        async def other(run: Run) -> None: ...

        async with working(app) as runtime:
            await pause(runtime, "")
            await app.emit("go")
            clock.move("10m")
            found = await look(outside, runtime)
            assert list(found) == ["waiting/app/all"]
            assert "paused by ada" in found["waiting/app/all"]["text"]

    async def test_one_that_no_process_has(self, new_app: NewApp, outside: Watcher, clock: VirtualClock):
        async with working(busy(new_app())) as runtime:
            await pause(runtime, "work")
            await go(runtime)
        async with working(new_app("other")) as other:
            await pause(other, "work", paused=False)
            clock.move("10m")
            found = await look(outside, other)
            assert "no living process has the agent" in found["waiting/app/work"]["text"]

    async def test_one_of_an_agent_that_is_gone_from_the_code_is_one_alarm(
        self, new_app: NewApp, outside: Watcher, clock: VirtualClock
    ):
        async with working(busy(new_app())) as runtime:
            await pause(runtime, "work")
            await go(runtime)
        async with working(new_app()) as without:
            await pause(without, "work", paused=False)
            clock.move("10m")
            assert list(await look(outside, without)) == ["agent/app/work"]

    @pytest.mark.parametrize(
        ("declared", "passed", "late"), [("1h", "59m", False), ("1h", "61m", True), ("10s", "11s", True)]
    )
    async def test_the_agent_says_how_long(
        self, new_app: NewApp, outside: Watcher, clock: VirtualClock, declared: str, passed: str, late: bool
    ):
        async with working(busy(new_app(), starts_within=declared)) as runtime:
            await pause(runtime, "work")
            await go(runtime)
            clock.move(passed)
            assert ("waiting/app/work" in await look(outside, runtime)) is late

    async def test_none_is_as_long_as_it_takes(self, new_app: NewApp, outside: Watcher, clock: VirtualClock):
        async with working(busy(new_app(), starts_within=None)) as runtime:
            await pause(runtime, "work")
            await go(runtime)
            clock.move("30d")
            assert await look(outside, runtime) == {}

    async def test_a_rate_that_is_used_up_explains_it(self, new_app: NewApp, outside: Watcher, clock: VirtualClock):
        async with working(busy(new_app(), rate="1/h")) as runtime:
            await go(runtime)
            await go(runtime)
            clock.move("30m")
            assert await look(outside, runtime) == {}

    async def test_a_concurrency_is_named_where_nothing_ends(
        self, new_app: NewApp, outside: Watcher, clock: VirtualClock
    ):
        app = new_app()
        began, go_on = asyncio.Event(), asyncio.Event()

        @app.agent(on("go"), concurrency=1, stuck_after=None)
        async def work(run: Run) -> None:
            began.set()
            await go_on.wait()

        async with working(app) as runtime:
            await app.emit("go")
            await asyncio.wait_for(began.wait(), 30)
            await app.emit("go")
            clock.move("4m")
            assert await look(outside, runtime) == {}
            clock.move("2m")
            found = await look(outside, runtime)
            assert "its concurrency of 1 is used up" in found["waiting/app/work"]["text"]
            go_on.set()
            await runtime.drain()
            assert await look(outside, runtime) == {}

    async def test_one_with_a_priority_is_not_older_than_it_is(
        self, new_app: NewApp, outside: Watcher, clock: VirtualClock
    ):
        async with working(busy(new_app(), priority=10)) as runtime:
            await pause(runtime, "work")
            await go(runtime)
            clock.move("4m")
            assert await look(outside, runtime) == {}
            clock.move("2m")
            assert list(await look(outside, runtime)) == ["waiting/app/work"]

    async def test_a_worker_that_has_just_come_has_its_time(
        self, new_app: NewApp, outside: Watcher, clock: VirtualClock
    ):
        async with working(busy(new_app())) as runtime:
            await pause(runtime, "work")
            await go(runtime)
        clock.move("2d")
        async with working(busy(new_app())) as runtime:
            assert await look(outside, runtime) == {}

    async def test_what_sleeps_is_not_late(self, new_app: NewApp, outside: Watcher, clock: VirtualClock):
        app = new_app()

        @app.agent(on("go"))
        async def nap(run: Run) -> None:
            await run.sleep("2d")

        async with working(app) as runtime:
            await go(runtime)
            clock.move("1d")
            assert await look(outside, runtime) == {}


async def test_runs_behind_a_dead_letter_of_their_key_are_one_alarm(
    new_app: NewApp, outside: Watcher, clock: VirtualClock
):
    app = new_app()

    @app.agent(on("go"), key="data.order", owner="platform")
    async def work(run: Run) -> None:
        raise Persistent("no")

    async with working(app) as runtime:
        dead = [await go(runtime, {"order": order}) for order in ("a", "b")]
        clock.move("10m")
        assert "blocked/app/work" not in await look(outside, runtime)  # nothing waits behind them
        await go(runtime, {"order": "b"})
        found = await look(outside, runtime)
        alarm = found["blocked/app/work"]
        assert alarm["owner"] == "platform"
        assert f"with key 'b' wait behind run {dead[1]['id']}" in alarm["text"]
        await runtime.store.do(RedoRun(dead[1]["id"], discard=True, by=Actor("ada", "code")))
        await runtime.drain()
        assert "blocked/app/work" not in await look(outside, runtime)


class Broken(Channel):
    attempts = 100
    error: Exception | None = Transient("away", retry_after="1h")

    async def deliver(self, messages: Any) -> None:
        if self.error is not None:
            raise self.error


async def test_a_lane_that_stands_still_is_one_alarm_whoever_sees_it_first(
    new_app: NewApp, outside: Watcher, clock: VirtualClock, store_url: str
):
    channel = Broken()
    app = new_app(channels={"ops": channel})

    @app.agent(on("go"), deliver="ops", owner="platform")
    async def work(run: Run) -> str:
        return "done"

    async with working(app) as runtime:
        channel.error = None
        await go(runtime)
        await forge(store_url, "update wakeful_delivery set state = 'pending', due_at = due_at + 864000000000")
        clock.move("16m")
        found = await look(outside, runtime)
        assert found["delivery/app/ops/late"]["owner"] == "platform"
        again = await look(outside, runtime)
        assert again["delivery/app/ops/late"]["count"] == 1
        clock.move("11d")
        runtime.courier.wake()
        await runtime.drain()
        assert await look(outside, runtime) == {}


@pytest.mark.parametrize(("within", "late"), [(None, True), (7_200_000_000, False), (0, False)])
async def test_a_source_that_is_behind(
    new_app: NewApp, outside: Watcher, clock: VirtualClock, store_url: str, within: int | None, late: bool
):
    async with working(busy(new_app())) as runtime:
        now = clock.now()
        clock.move("30m")
        columns = "app, name, kind, state, since, lag, behind, event_at, read_at, lag_within"
        values = f"'app', 'orders', 'bucket', 'reading', {now}, 3600000000, 7, {clock.now()}, {clock.now()}"
        await forge(
            store_url,
            f"insert into wakeful_source ({columns}) values ({values}, {within or 'null' if within is None else within})",
        )
        found = await look(outside, runtime)
        assert ("lag/app/orders" in found) is late
        clock.move("10m")
        assert await look(outside, runtime) == {}  # nothing came since: there is nothing to be behind with
