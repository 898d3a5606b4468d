"""One run over many events: what joins, when it goes, and what its handler is given."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from support.apps import ended, pass_time, working
from wakeful import App, ConfigError, Persistent, Run, on
from wakeful.runtime import Runtime
from wakeful.stores.request import Actor
from wakeful.stores.verbs.cancel import CancelRun
from wakeful.stores.verbs.redo import RedoRun


class Item(BaseModel):
    n: int


def gatherer(app: App, *, most: int = 3, **options: Any) -> list[list[int]]:
    batches: list[list[int]] = []

    @app.agent(on("go"), batch=(most, "10s"), **options)
    async def gather(run: Run, items: list[Item]) -> int:
        assert [event.data["n"] for event in run.events] == [item.n for item in items]
        assert run.event is run.events[0]
        batches.append([item.n for item in items])
        return len(items)

    return batches


async def send(app: App, *numbers: int) -> list[str]:
    receipts = [await app.emit("go", {"n": number, "k": number % 2}, id=f"e{number}") for number in numbers]
    return [run for receipt in receipts for run in receipt.runs]


async def admissions(runtime: Runtime, *numbers: int) -> list[str]:
    events = [await runtime.reader.event(f"e{number}") for number in numbers]
    return [event["admissions"][0]["state"] for event in events if event is not None]


async def test_a_full_one_goes_at_once_and_the_rest_when_its_time_is_over(app: App):
    batches = gatherer(app)
    async with working(app) as runtime:
        runs = await send(app, 1, 2, 3, 4, 5)
        await runtime.drain()
        assert batches == [[1, 2, 3]]
        assert runs == [runs[0]] * 3 + [runs[3]] * 2
        await pass_time(runtime, "9s")
        assert batches == [[1, 2, 3]]
        await pass_time(runtime, "1s")
        assert batches == [[1, 2, 3], [4, 5]]
        assert await admissions(runtime, 1, 2, 3, 4, 5) == ["started", "joined", "joined", "started", "joined"]


async def test_those_that_come_in_one_request_are_gathered_alike(app: App):
    from wakeful.intake.cloudevents import new_event

    batches = gatherer(app)
    async with working(app) as runtime:
        await send(app, 0)
        events = [new_event("go", {"n": number, "k": 0}, source="/app", id=f"e{number}") for number in range(1, 8)]
        receipts = await runtime.door.accept(events)
        assert len({run for receipt in receipts for run in receipt.runs}) == 3
        await pass_time(runtime, "10s")
    assert sorted(batches) == [[0, 1, 2], [3, 4, 5], [6, 7]]


async def test_a_second_delivery_maps_onto_the_run_that_it_joined(app: App):
    batches = gatherer(app)
    async with working(app) as runtime:
        first, second = await send(app, 1, 2)
        again = await app.emit("go", {"n": 2, "k": 0}, id="e2")
        assert again.status == "duplicate"
        assert again.runs == [first] == [second]
        await pass_time(runtime, "10s")
    assert batches == [[1, 2]]


async def test_all_its_events_are_listed(app: App):
    gatherer(app)
    async with working(app) as runtime:
        run = (await send(app, 1, 2, 3))[0]
        await runtime.drain()
        shown = await runtime.reader.run(run)
        assert shown is not None
        assert [event["id"] for event in shown["events"]] == ["e1", "e2", "e3"]
        story = " ".join((await runtime.reader.why("e3") or {})["story"])
        assert "The run handles 3 events: e1, then e2, e3." in story


async def test_each_key_gathers_by_itself_and_its_batches_go_in_order(app: App):
    batches = gatherer(app, most=2, key="data.k")
    async with working(app) as runtime:
        await send(app, *range(9))
        await pass_time(runtime, "10s")
    assert [batch for batch in batches if batch[0] % 2] == [[1, 3], [5, 7]]
    assert [batch for batch in batches if not batch[0] % 2] == [[0, 2], [4, 6], [8]]


async def test_one_that_does_not_fit_takes_the_whole_to_the_dead_letters_and_a_person_mends_it(app: App):
    batches = gatherer(app)
    async with working(app) as runtime:
        await app.emit("go", {"n": 1}, id="e1")
        await app.emit("go", {"n": "odd"}, id="e2")
        await pass_time(runtime, "10s")
        (dead,) = (await runtime.reader.runs(state="dead"))["runs"]
        shown = await runtime.reader.run(dead["id"])
        assert shown is not None
        assert "1.n" in shown["error"]["message"]
        await runtime.store.do(RedoRun(dead["id"], data='[{"n": 1}]', by=Actor("ada", "code")))
        await runtime.drain()
        shown = await runtime.reader.run(dead["id"])
        assert shown is not None
        assert "must be a list of 2" in shown["error"]["message"]
        await runtime.store.do(RedoRun(dead["id"], data='[{"n": 1}, {"n": 2}]', by=Actor("ada", "code")))
        await runtime.drain()
        assert batches == [[1, 2]]
        again = await runtime.store.do(RedoRun(dead["id"], again=True, by=Actor("ada", "code")))
        assert again is not None
        await runtime.drain()
    assert batches == [[1, 2], [1, 2]]


async def test_it_expires_with_the_last_of_its_events(app: App):
    batches = gatherer(app, expires="5s")
    async with working(app) as runtime:
        await send(app, 1)
        await pass_time(runtime, "4s")
        await send(app, 2)
        await pass_time(runtime, "6s")
        assert await admissions(runtime, 1, 2) == ["expired", "expired"]
        await send(app, 3, 4)
        await pass_time(runtime, "3s")
        await send(app, 5)
        await runtime.drain()
    assert batches == [[3, 4, 5]]


async def test_what_failed_is_over_all_of_them_again(app: App):
    batches: list[list[str]] = []

    @app.agent(on("go"), batch=(2, "10s"))
    async def gather(run: Run) -> None:
        batches.append([event.id for event in run.events])
        if len(batches) == 1:
            message = "no"
            raise Persistent(message)

    async with working(app) as runtime:
        run = (await send(app, 1, 2))[0]
        await runtime.drain()
        await runtime.store.do(RedoRun(run, by=Actor("ada", "code")))
        await send(app, 3)
        await runtime.drain()
    assert batches == [["e1", "e2"], ["e1", "e2"]]


async def test_one_without_a_batch_is_over_its_own_event(app: App):
    @app.agent(on("go"))
    async def single(run: Run) -> list[str]:
        return [event.id for event in run.events]

    async with working(app) as runtime:
        run = await ended(runtime, await app.emit("go", id="e1"))
    assert run["output"] == ["e1"]


def test_its_data_is_a_list():
    app = App("app")
    with pytest.raises(ConfigError, match=r"item must be a list with batch="):

        @app.agent(on("go"), batch=(2, "1s"))
        async def gather(run: Run, item: Item) -> None: ...


async def test_each_of_several_that_called_it_gets_its_output(app: App):
    callers = calling_together(app)
    async with working(app) as runtime:
        await app.emit("ask", id="1")
        await app.emit("ask", id="2")
        await runtime.drain()
        await pass_time(runtime, "10s")
        assert await runtime.reader.counts() == {"done": 3}
    assert callers == {"1": 2, "2": 2}


async def test_one_of_those_that_called_it_is_cancelled_and_it_goes_on_for_the_others(app: App):
    callers = calling_together(app)
    async with working(app) as runtime:
        await app.emit("ask", id="1")
        receipt = await app.emit("ask", id="2")
        await runtime.drain()
        await runtime.store.do(CancelRun(receipt.runs[0], by=Actor("alice", "code"), note=None))
        await pass_time(runtime, "10s")
        assert await runtime.reader.counts() == {"cancelled": 1, "done": 2}
    assert callers == {"1": 2}


def calling_together(app: App) -> dict[str, int]:
    """An agent over up to ten events, and one that calls it: what each call of that returned."""
    returned: dict[str, int] = {}

    @app.agent(on("embed"), batch=(10, "10s"))
    async def embed(run: Run) -> int:
        return len(run.events)

    @app.agent(on("ask"))
    async def caller(run: Run) -> None:
        returned[run.event.id] = await run.call("embed", {"text": run.event.id})

    return returned
