"""A message that closed its thread: what it overtook does not go out behind it, however it comes back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from support.apps import NewApp, go, pass_time, working
from wakeful import App, Persistent, Run, Transient, on
from wakeful.channels import Channel, Message, Sent
from wakeful.runtime import Runtime
from wakeful.stores.request import Actor
from wakeful.stores.verbs.outbox import RedoDelivery
from wakeful.stores.verbs.redo import RedoRun
from wakeful.why import why

ADA = Actor("ada", "code")


class Pager(Channel):
    """Opens and closes incidents: "resolve" closes its thread, as far as the test says."""

    repeats = "known"
    most = 10

    def __init__(self, closes: Any = "earlier") -> None:
        self.closes = closes
        self.arrived: list[str] = []
        self.refused: dict[str, Exception] = {}

    async def deliver(self, messages: Sequence[Message]) -> list[Sent]:
        for one in messages:
            if one.body in self.refused:
                raise self.refused[one.body]
        self.arrived += [one.body for one in messages]
        return [Sent(closes=self.closes if one.body.startswith("resolve") else None) for one in messages]


def paging(app: App) -> App:
    @app.agent(on("go"))
    async def page(run: Run) -> None:
        run.send("ops", run.event.data, thread=run.event.subject)

    return app


async def replay(runtime: Runtime, delivery: dict[str, Any]) -> str | None:
    before = await runtime.store.do(RedoDelivery(delivery["id"], by=ADA))
    await runtime.drain()
    return before


async def the_delivery(runtime: Runtime, run: dict[str, Any]) -> dict[str, Any]:
    found = await runtime.reader.run(run["id"])
    assert found is not None
    (one,) = found["deliveries"]
    return one


@pytest.mark.parametrize("closes", ["earlier", "thread"])
async def test_what_is_replayed_after_the_resolve_is_discarded(new_app: NewApp, closes: str):
    pager = Pager(closes)
    pager.refused["trigger"] = Persistent("no such service")
    async with working(paging(new_app(channels={"ops": pager}))) as runtime:
        run = await go(runtime, "trigger", subject="db")
        other = await go(runtime, "trigger", subject="web")
        closing = await the_delivery(runtime, await go(runtime, "resolve", subject="db"))
        assert pager.arrived == ["resolve"]
        pager.refused.clear()
        assert await replay(runtime, await the_delivery(runtime, run)) == "dead"
        assert pager.arrived == ["resolve"]
        one = await the_delivery(runtime, run)
        reason = f"not sent: delivery {closing['id']} has arrived before it, and closed their thread"
        assert (one["state"], one["reason"]) == ("discarded", reason)
        assert one["settled_at"] is not None
        assert reason in str(await why(runtime.reader, one["id"]))
        assert await replay(runtime, await the_delivery(runtime, other)) == "dead"
        assert pager.arrived == ["resolve", "trigger"], "another thread is not concerned"


async def test_until_the_resolve_has_arrived_the_trigger_is_tried_and_goes_first(new_app: NewApp):
    pager = Pager()
    pager.refused = {"trigger": Persistent("no"), "resolve": Transient("down")}
    async with working(paging(new_app(channels={"ops": pager}))) as runtime:
        run = await go(runtime, "trigger", subject="db")
        await go(runtime, "resolve", subject="db")
        pager.refused.clear()
        await replay(runtime, await the_delivery(runtime, run))
        await pass_time(runtime)
    assert pager.arrived == ["trigger", "resolve"]


@pytest.mark.parametrize(("closes", "arrived"), [("earlier", 3), ("thread", 2)])
async def test_a_later_trigger_is_a_new_incident_unless_the_thread_is_closed(
    new_app: NewApp, closes: str, arrived: int
):
    pager = Pager(closes)
    async with working(paging(new_app(channels={"ops": pager}))) as runtime:
        await go(runtime, "trigger 1", subject="db")
        await go(runtime, "resolve 1", subject="db")
        run = await go(runtime, "trigger 2", subject="db")
        one = await the_delivery(runtime, run)
    assert pager.arrived == ["trigger 1", "resolve 1", "trigger 2"][:arrived]
    assert one["state"] == ("delivered" if arrived == 3 else "discarded")


async def test_many_that_were_overtaken_hold_nothing_up(new_app: NewApp):
    pager = Pager()
    pager.refused["trigger"] = Persistent("no")
    async with working(paging(new_app(channels={"ops": pager}))) as runtime:
        runs = [await go(runtime, "trigger", subject="db") for _ in range(25)]
        await go(runtime, "resolve", subject="db")
        pager.refused.clear()
        for run in runs:
            await runtime.store.do(RedoDelivery((await the_delivery(runtime, run))["id"], by=ADA))
        last = await go(runtime, "last")
        states = {(await the_delivery(runtime, run))["state"] for run in runs}
        assert (await the_delivery(runtime, last))["state"] == "delivered"
    assert states == {"discarded"}
    assert pager.arrived == ["resolve", "last"]


async def test_what_a_channel_of_ones_own_answers_amiss_closes_nothing(new_app: NewApp):
    pager = Pager("everything")
    async with working(paging(new_app(channels={"ops": pager}))) as runtime:
        await go(runtime, "resolve", subject="db")
        await go(runtime, "trigger", subject="db")
    assert pager.arrived == ["resolve", "trigger"]


class TestAlarms:
    async def test_the_messages_of_an_incident_share_a_thread(self, new_app: NewApp):
        got: list[Message] = []

        class Post(Pager):
            async def deliver(self, messages: Sequence[Message]) -> list[Sent]:
                got.extend(messages)
                return []

        app = new_app(alarms="ops", channels={"ops": Post()}, alarm_repeat="1h")
        trouble: list[Exception] = [Persistent("no")]

        @app.agent(on("go"))
        async def agent(run: Run) -> None:
            if trouble:
                raise trouble[0]

        async with working(app) as runtime:
            run = await go(runtime)
            await pass_time(runtime, "1h")
            trouble.clear()
            await runtime.store.do(RedoRun(run["id"], by=ADA))
            await runtime.drain()
            await pass_time(runtime, "1m")
        key = got[0].body["key"]
        assert [(one.body["what"], one.thread, one.urgent) for one in got] == [
            ("opened", f"{key}/1", False),
            ("still open", f"{key}/1", False),
            ("resolved", f"{key}/1", False),
        ]
