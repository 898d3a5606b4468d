"""An app that is retired: what waited is closed with a reason, nobody expects anything of it, and whoever starts it brings it back."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any, Self

import pytest

from wakeful import App, Operation, Persistent, RateLimited, Run, action, cron, on
from wakeful.channels import Channel
from wakeful.clock import VirtualClock
from wakeful.errors import NotFound
from wakeful.intake.cloudevents import new_event
from wakeful.operations.retiring import StillServed, plan_retirement, retire
from wakeful.reader import Reader
from wakeful.resources.apps import apps
from wakeful.resources.desk import looking
from wakeful.runtime import Runtime
from wakeful.stores.known import retired_apps
from wakeful.stores.opening import open_database
from wakeful.stores.request import Actor
from wakeful.stores.store import DatabaseStore
from wakeful.stores.verbs.cancel import CancelRun
from wakeful.testing import World
from wakeful.watch.facts import Facts
from wakeful.watch.watcher import Watcher


class Slow(Channel):
    async def deliver(self, messages: Any) -> None:
        raise RateLimited("later", retry_after="5m")


def shop() -> App:
    app = App("shop", channels={"slow": Slow()})

    @action(safety="idempotent")
    async def charge(op: Operation) -> str:
        return "charged"

    @app.agent(cron("0 8 * * *"), on("report"))
    async def report(run: Run) -> None: ...

    @app.agent(on("order"))
    async def sell(run: Run) -> None:
        await run.act(charge)
        await run.sleep("30d")

    @app.agent(on("broken"))
    async def mend(run: Run) -> None:
        raise Persistent("no")

    @app.agent(on("tell"), deliver="slow")
    async def tell(run: Run) -> str:
        return "hello"

    app.expect("a sale", event="order", at_least_every="1d")
    return app


async def left_behind(store_url: str, clock: VirtualClock) -> None:
    """A store with all that an app can leave, and nobody alive."""
    async with World(shop(), store=store_url, clock=clock, deliver=True) as world:
        await world.emit("order", id="o1")
        await world.emit("broken", id="b1")
        await world.emit("tell", id="t1")
        await world.drain(skip=False)


class Opened:
    """The store, from outside of any app."""

    def __init__(self, store_url: str, clock: VirtualClock) -> None:
        self.store = DatabaseStore(open_database(store_url, clock))
        self.reader = Reader(self.store.database)

    async def __aenter__(self) -> Self:
        await self.store.open(migrate=False)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.store.close()


async def test_what_waited_is_closed_and_nothing_is_deleted(store_url: str):
    clock = VirtualClock()
    await left_behind(store_url, clock)
    async with Opened(store_url, clock) as opened:
        plan = await plan_retirement(opened.reader, "shop")
        assert (plan.workers, plan.schedules, plan.runs, plan.messages, plan.dead) == (
            0,
            ["report"],
            {"waiting": 1},
            1,
            1,
        )
        assert plan.expectations
        assert plan.alarms
        assert await retired_apps(opened.reader) == {}

        done = await retire(opened.reader, opened.store, plan, by=Actor("ada", "code"), note="sold")
        assert (done.schedules, done.runs, done.messages) == (["report"], {"waiting": 1}, 1)
        assert done.alarms == plan.alarms

        (run,) = (await opened.reader.runs(event="o1"))["runs"]
        assert (run["state"], run["reason"]) == ("cancelled", "cancelled by ada: app shop was retired: sold")
        detail = await opened.reader.run(run["id"])
        assert detail is not None
        assert [one["state"] for one in detail["effects"]] == ["confirmed"]
        assert [(one["verb"], one["operator"]) for one in detail["remedies"]] == [("cancel", "ada")]
        (delivery,) = (await opened.reader.deliveries())["deliveries"]
        assert (delivery["state"], "app shop was retired: sold" in delivery["reason"]) == ("discarded", True)
        schedule = await opened.reader.schedule("report")
        assert schedule is not None
        assert schedule["state"] == "removed"
        assert any(one["operator"] == "ada" and "retired: sold" in (one["note"] or "") for one in schedule["changes"])
        (letter,) = (await opened.reader.runs(state="dead"))["runs"]
        assert letter["agent"] == "mend"
        assert {one["state"] for one in (await opened.reader.alarms())["alarms"]} == {"resolved"}
        expected = await opened.reader.expectations()
        assert {one["state"] for one in expected} == {"excused"}
        assert "was retired by ada" in expected[0]["reason"]
        (listed,) = await apps(looking(opened.reader))
        assert (listed["state"], listed["runs"]) == ("retired", {"dead": 1})
        assert listed["retired"] is not None
        assert (listed["retired"]["by"], listed["retired"]["note"]) == ("ada", "sold")

        again = await retire(opened.reader, opened.store, plan, by=Actor("bob", "code"), note=None)
        assert (again.schedules, again.runs, again.messages, again.alarms) == ([], {}, 0, [])
        assert (await retired_apps(opened.reader))["shop"]["by"] == "ada"


async def test_nobody_watches_it_any_more(store_url: str):
    clock = VirtualClock()
    await left_behind(store_url, clock)
    async with Opened(store_url, clock) as opened:
        plan = await plan_retirement(opened.reader, "shop")
        await retire(opened.reader, opened.store, plan, by=Actor("ada", "code"), note=None)
        clock.move("30d")
        _, down = await Watcher(Facts(opened.store.database), opened.store).look()
        assert down == []
        assert {one["state"] for one in (await opened.reader.alarms())["alarms"]} == {"resolved"}


async def test_whoever_starts_it_brings_it_back(store_url: str):
    clock = VirtualClock()
    await left_behind(store_url, clock)
    async with Opened(store_url, clock) as opened:
        plan = await plan_retirement(opened.reader, "shop")
        await retire(opened.reader, opened.store, plan, by=Actor("ada", "code"), note="sold")
        async with World(shop(), store=store_url, clock=clock) as world:
            assert await retired_apps(opened.reader) == {}
            schedule = await opened.reader.schedule("report")
            assert schedule is not None
            assert schedule["state"] == "live"
            assert (await world.handle("report"))["state"] == "done"
            (run,) = (await opened.reader.runs(event="o1"))["runs"]
            assert run["state"] == "cancelled"
            assert not any("retired" in one["reason"] for one in await opened.reader.expectations())


async def test_it_is_refused_while_workers_serve_it_unless_that_is_said(store_url: str):
    clock = VirtualClock()
    async with World(shop(), store=store_url, clock=clock), Opened(store_url, clock) as opened:
        plan = await plan_retirement(opened.reader, "shop")
        assert plan.workers == 1
        with pytest.raises(StillServed, match="1 live worker serves app shop"):
            await retire(opened.reader, opened.store, plan, by=Actor("ada", "code"), note=None)
        # One that starts just after the plan was made is seen too.
        plan.workers = 0
        with pytest.raises(StillServed):
            await retire(opened.reader, opened.store, plan, by=Actor("ada", "code"), note=None)
        assert await retired_apps(opened.reader) == {}
        await retire(opened.reader, opened.store, plan, by=Actor("ada", "code"), note=None, live=True)
        assert list(await retired_apps(opened.reader)) == ["shop"]


class StartedMeanwhile(DatabaseStore):
    """Before the first run is cancelled, the app is started."""

    start: Any = None

    async def do(self, request: Any) -> Any:
        if self.start is not None and isinstance(request, CancelRun):
            start, self.start = self.start, None
            await start()
        return await super().do(request)


async def test_one_that_is_started_meanwhile_keeps_what_it_has(store_url: str):
    clock = VirtualClock()
    await left_behind(store_url, clock)
    async with World(shop(), store=store_url, clock=clock) as world:
        await world.emit("order", id="o2")
        await world.drain(skip=False)
    async with contextlib.AsyncExitStack() as stack:
        opened = Opened(store_url, clock)
        opened.store = store = StartedMeanwhile(opened.store.database)
        await stack.enter_async_context(opened)
        plan = await plan_retirement(opened.reader, "shop")
        assert plan.messages == 1

        async def start() -> None:
            await stack.enter_async_context(World(shop(), store=store_url, clock=clock))

        store.start = start
        with pytest.raises(StillServed, match="app shop was started meanwhile and is not retired"):
            await retire(opened.reader, opened.store, plan, by=Actor("ada", "code"), note=None)
        assert await retired_apps(opened.reader) == {}
        schedule = await opened.reader.schedule("report")
        assert schedule is not None
        assert schedule["state"] == "live"  # the app declared it again
        (delivery,) = (await opened.reader.deliveries())["deliveries"]
        assert delivery["state"] == "pending"
        assert "resolved" not in {one["state"] for one in (await opened.reader.alarms())["alarms"]}


async def test_runs_of_a_process_that_died_are_closed_too(store_url: str):
    clock = VirtualClock()
    app, begun = App("shop"), asyncio.Event()

    @app.agent(on("order"))
    async def sell(run: Run) -> None:
        begun.set()
        await asyncio.get_running_loop().create_future()

    runtime = Runtime(app, store=store_url, clock=clock)
    await runtime.open(migrate=True)
    await runtime.start()
    await runtime.door.accept([new_event("order", None, source="/test", id="1")])
    await asyncio.wait_for(begun.wait(), 60)
    await runtime.die()
    clock.move("1h")
    async with Opened(store_url, clock) as opened:
        plan = await plan_retirement(opened.reader, "shop")
        done = await retire(opened.reader, opened.store, plan, by=Actor("ada", "code"), note=None)
        assert (plan.runs, done.runs) == ({"running": 1}, {"ready": 1})
        (run,) = (await opened.reader.runs())["runs"]
        assert run["state"] == "cancelled"


async def test_an_app_that_never_was_here_is_refused(store_url: str):
    clock = VirtualClock()
    await left_behind(store_url, clock)
    async with Opened(store_url, clock) as opened:
        with pytest.raises(NotFound, match=r'no app "shp" has used this store.*Did you mean "shop"'):
            await plan_retirement(opened.reader, "shp")
