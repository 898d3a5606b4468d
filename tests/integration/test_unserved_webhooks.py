"""A webhook whose server died: people see it, and somebody hears of it. And an app that died with nothing but runs that wait."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from support.apps import NewApp, go, working
from support.stores import OpenStore
from wakeful import App, Operation, Run, Transient, action, on, webhook
from wakeful.channels import Channel, Message
from wakeful.clock import VirtualClock, duration
from wakeful.runtime import Runtime
from wakeful.verify import none
from wakeful.watch.facts import Facts
from wakeful.watch.watcher import Watcher
from wakeful.why import why

PATH = "/hooks/shop"
SHORT = duration("15s")


@pytest.fixture
async def outside(stores: OpenStore, store_url: str) -> Watcher:
    """A watcher that has none of the code, at the same store."""
    store = await stores(store_url)
    return Watcher(Facts(store.database), store, time_passes=False)


class Away(Channel):
    """Nothing gets through for now."""

    async def deliver(self, messages: Sequence[Message]) -> None:
        raise Transient("away", retry_after="1h")


def hooked(app: App) -> App:
    @app.agent(webhook(PATH, verify=none(), type="order"), owner="platform")
    async def take(run: Run) -> None: ...

    return app


@asynccontextmanager
async def serving(app: App) -> AsyncIterator[Runtime]:
    """A process that serves webhooks as `wakeful serve` does."""
    runtime = Runtime(app, lease=SHORT)
    await runtime.open()
    await runtime.start()
    await runtime.webhooks.start()
    await runtime.webhooks.run_once()
    yield runtime


async def the_webhook(runtime: Runtime) -> dict[str, Any]:
    found = await runtime.reader.source(PATH)
    assert found is not None
    return found


async def open_alarms(runtime: Runtime) -> dict[str, dict[str, Any]]:
    return {one["key"]: one for one in (await runtime.reader.alarms(state="open"))["alarms"]}


async def test_one_whose_server_died_is_unserved_since_then(new_app: NewApp, clock: VirtualClock):
    async with serving(hooked(new_app())) as server, working(hooked(new_app())) as worker:
        found = await the_webhook(worker)
        assert (found["state"], found["unread"]) == ("reading", None)
        assert [one["alive"] for one in found["servers"]] == [True]
        await server.die()
        clock.move("20s")
        found = await the_webhook(worker)
        assert (found["state"], found["since"]) == ("unserved", "2026-01-01T00:00:15Z")
        assert "no server answers its requests" in found["unread"]
        told = await why(worker.reader, PATH)
        assert told is not None
        assert any("not been served since" in line for line in told["story"])
        assert (await worker.reader.health())["webhooks"]["ok"] is False


async def test_the_owner_hears_of_it_and_that_it_is_over(new_app: NewApp, clock: VirtualClock, outside: Watcher):
    key = f"expect/app/{PATH}/not-read"
    async with serving(hooked(new_app())) as server, working(hooked(new_app())) as worker:
        await server.die()
        clock.move("44s")
        await outside.run_once()
        assert key not in await open_alarms(worker)  # another may start meanwhile
        clock.move("2s")
        await outside.run_once()
        alarm = (await open_alarms(worker))[key]
        assert alarm["owner"] == "platform"
        assert alarm["subject"] == f"Nothing comes in from {PATH}"
        assert "since 2026-01-01T00:00:15Z" in alarm["text"]
        async with serving(hooked(new_app())) as again:
            await outside.run_once()
            assert key not in await open_alarms(worker)
            assert (await the_webhook(worker))["state"] == "reading"
            assert "webhooks" not in await worker.reader.health()
            await again.stop()


async def test_one_of_two_servers_is_enough(new_app: NewApp, clock: VirtualClock, outside: Watcher):
    async with serving(hooked(new_app())) as first, serving(hooked(new_app())) as second:
        await first.die()
        clock.move("5s")
        found = await the_webhook(second)
        assert found["state"] == "reading"
        await second.stop()


async def test_one_that_is_stopped_in_good_order_is_idle(new_app: NewApp, clock: VirtualClock, outside: Watcher):
    async with serving(hooked(new_app())) as server, working(hooked(new_app())) as worker:
        await server.stop()
        clock.move("10m")
        await outside.run_once()
        assert await open_alarms(worker) == {}
        found = await the_webhook(worker)
        assert (found["state"], found["servers"]) == ("idle", [])


async def test_an_app_that_died_with_runs_that_wait_is_down(
    new_app: NewApp, clock: VirtualClock, outside: Watcher, waiting_apps: list[App]
):
    for number, app in enumerate(waiting_apps):
        runtime = Runtime(app, lease=SHORT)
        await runtime.open()
        await runtime.start()
        await go(runtime, number)
        await runtime.die()
        clock.move("1m")
        async with working(new_app("other")) as other:
            await outside.run_once()
            assert f"down/{app.name}" in await open_alarms(other), app.name


@pytest.fixture
def waiting_apps(new_app: NewApp) -> list[App]:
    """Apps without a schedule, a source or an expectation, each with another thing that is not over."""
    sleeping, held, asking = new_app("sleeping"), new_app("held"), new_app("asking")
    sending = new_app("sending", channels={"ops": Away()})

    @sending.agent(on("go"), deliver="ops")
    async def say(run: Run) -> str:
        return "hello"

    @sleeping.agent(on("go"))
    async def nap(run: Run) -> None:
        await run.sleep("2d")

    @action
    async def pay(op: Operation) -> None:
        raise TimeoutError

    @held.agent(on("go"))
    async def spend(run: Run) -> None:
        await run.act(pay)

    @asking.agent(on("go"))
    async def ask(run: Run) -> None:
        await run.ask("may I?")

    return [sleeping, held, asking, sending]


async def test_an_app_that_died_with_nothing_left_to_do_is_not_missed(
    new_app: NewApp, clock: VirtualClock, outside: Watcher
):
    app = new_app("finished")

    @app.agent(on("go"))
    async def work(run: Run) -> None: ...

    runtime = Runtime(app, lease=SHORT)
    await runtime.open()
    await runtime.start()
    await go(runtime)
    await runtime.die()
    clock.move("1m")
    async with working(new_app("other")) as other:
        await outside.run_once()
        assert await open_alarms(other) == {}
