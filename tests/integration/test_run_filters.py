"""Which run touched order 8841? Runs are found by subject, action, trace and time, on both stores."""

from __future__ import annotations

from typing import Any

import pytest

from support.stores import Onlooker, count
from wakeful import App, Operation, Run, action, on
from wakeful.model import trace_id
from wakeful.stores.request import Actor
from wakeful.stores.verbs.redo import RedoRun
from wakeful.testing import World

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
TRACEPARENT = f"00-{TRACE}-00f067aa0ba902b7-01"


@pytest.fixture
def app() -> App:
    app = App("shop")

    @action(safety="idempotent")
    async def refund(op: Operation, order: str) -> None: ...

    @action(safety="idempotent")
    async def book(op: Operation, order: str) -> None: ...

    @app.agent(on("order.placed"))
    async def settle(run: Run) -> None:
        await run.act(book, str(run.event.subject))
        await run.emit("order.settled", subject=f"settled {run.event.subject}")

    @app.agent(on("order.settled"))
    async def thank(run: Run) -> None: ...

    @app.agent(on("order.returned"))
    async def give_back(run: Run) -> None:
        await run.act(refund, "first")
        await run.act(refund, "second")

    return app


async def listed(world: World, **which: Any) -> list[str]:
    """Agent and subject of what is found, newest first."""
    page = await world.runtime.reader.runs(**which)
    found = []
    for one in page["runs"]:
        event = await world.runtime.reader.event(one["event"]["id"])
        assert event is not None
        found.append(f"{one['agent']} {event['envelope'].get('subject')}")
    return found


async def test_runs_are_found_by_what_they_touched(app: App, store_url: str):
    async with World(app, store=store_url) as world:
        first = await world.emit("order.placed", subject="8841")
        await world.drain()
        await world.skip("1h")
        halfway = world.clock.now()
        await world.emit("order.returned", subject="8841", traceparent=TRACEPARENT)
        await world.emit("order.placed", subject="8842", traceparent=TRACEPARENT)
        await world.drain()

        assert await listed(world, subject="8841") == ["give_back 8841", "settle 8841"]
        assert await listed(world, subject="8841", agent="settle") == ["settle 8841"]
        assert await listed(world, subject="8841", action="refund") == ["give_back 8841"]
        assert await listed(world, subject="884") == []
        assert await listed(world, action="refund") == ["give_back 8841"]
        assert await listed(world, action="book") == ["settle 8842", "settle 8841"]
        assert await listed(world, action="book", until=halfway) == ["settle 8841"]
        assert await listed(world, action="nothing") == []

        traced = ["thank settled 8842", "settle 8842", "give_back 8841"]
        for trace in (TRACE, TRACEPARENT, TRACE[:10], TRACE.upper()):
            assert await listed(world, trace=trace) == traced
        assert await listed(world, trace=TRACE[:5]) == []
        assert await listed(world, trace=TRACE, subject="8841") == ["give_back 8841"]
        # A trace that begins with its event goes on with what its runs emit.
        event = await world.runtime.reader.event(first.id)
        assert event is not None
        own = trace_id(event["envelope"]["traceparent"])
        assert own is not None
        for trace in (own, own[:12]):
            assert await listed(world, trace=trace) == ["thank settled 8841", "settle 8841"]

        assert len(await listed(world, since=halfway)) == 3
        assert len(await listed(world, until=halfway)) == 2
        assert await listed(world, since=halfway, state="dead") == []
        assert await listed(world, since=world.clock.now() + 1) == []
        assert await listed(world, event=first.id) == ["settle 8841"]


async def test_pages_of_a_filter(app: App, store_url: str):
    async with World(app, store=store_url) as world:
        for _ in range(5):
            await world.emit("order.returned", subject="8841")
        await world.drain()
        for which in ({"subject": "8841"}, {"action": "refund"}, {"since": 0}):
            seen, after = [], None
            while True:
                page = await world.runtime.reader.runs(limit=2, after=after, **which)
                seen += [run["id"] for run in page["runs"]]
                after = page["next"]
                if after is None:
                    break
            assert len(seen) == len(set(seen)) == 5


async def test_what_is_done_again_is_found_too(app: App, store_url: str):
    async with World(app, store=store_url) as world:
        receipt = await world.emit("order.returned", subject="8841", traceparent=TRACEPARENT)
        await world.drain()
        await world.runtime.store.do(RedoRun(receipt.runs[0], again=True, by=Actor("ada", "code")))
        await world.drain()
        assert await listed(world, subject="8841") == ["give_back 8841"] * 2
        assert await listed(world, trace=TRACE) == ["give_back 8841"] * 2
        assert await listed(world, event=receipt.id) == ["give_back 8841"] * 2


async def test_a_time_is_found_where_numbers_have_gaps(app: App, store_url: str):
    """Runs that retention removed leave holes: the search steps over them."""
    async with World(app, store=store_url) as world:
        moments = []
        for _ in range(12):
            moments.append(world.clock.now())
            await world.emit("order.returned", subject="8841")
            await world.drain()
            await world.skip("1h")
        onlooker = Onlooker(store_url)
        await onlooker.query("delete from wakeful_run where seq in (2, 3, 4, 5, 9)")
        await onlooker.close()
        assert len(await listed(world, since=moments[6])) == 5
        assert len(await listed(world, until=moments[6])) == 2
        assert len(await listed(world, since=moments[1], until=moments[7])) == 2


async def test_an_event_that_is_removed_takes_its_trace_along(app: App, store_url: str):
    async with World(app, store=store_url) as world:
        for number in range(2):
            await world.emit("nothing", number, traceparent=TRACEPARENT)
        await world.emit("nothing", 3)
        assert await count(store_url, "wakeful_trace") == 2
        onlooker = Onlooker(store_url)
        await onlooker.query("delete from wakeful_event where seq = 1")
        await onlooker.close()
        assert await count(store_url, "wakeful_trace") == 1
