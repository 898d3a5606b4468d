"""What an agent keeps from run to run: serial, read once, saved by compare-and-set with the run's commit."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest
from pydantic import BaseModel

from support.apps import NewApp, ended, go, pass_time, the_run, working
from wakeful import App, ConfigError, Persistent, Run, Transient, on
from wakeful.runtime import Runtime
from wakeful.stores.request import Actor
from wakeful.stores.verbs.commit import ReleaseRun
from wakeful.stores.verbs.redo import RedoRun
from wakeful.stores.verbs.state import ChangeState


class Seen(BaseModel):
    count: int = 0
    names: list[str] = []


async def kept(runtime: Runtime, agent: str = "counter") -> Any:
    (state,) = await runtime.reader.states(agent)
    return state["value"]


def count(app: App) -> list[int]:
    seen: list[int] = []

    @app.agent(on("go"), state=Seen)
    async def counter(run: Run) -> int:
        seen.append(run.state.count)
        run.state.count += 1
        return int(run.state.count)

    return seen


async def test_it_goes_from_run_to_run(app: App):
    seen = count(app)
    async with working(app) as runtime:
        for number in range(3):
            await go(runtime, id=str(number))
        assert await kept(runtime) == {"count": 3, "names": []}
    assert seen == [0, 1, 2]


async def test_runs_are_serial(app: App):
    seen = count(app)
    async with working(app) as runtime:
        receipts = [await app.emit("go", id=str(number)) for number in range(30)]
        await runtime.drain()
        outputs = [(await the_run(runtime, receipt))["output"] for receipt in receipts]
        assert await kept(runtime) == {"count": 30, "names": []}
    assert seen == list(range(30))
    assert sorted(outputs) == list(range(1, 31))


async def test_runs_are_serial_over_processes(new_app: NewApp):
    apps = [new_app(), new_app()]
    inside, most = 0, 0

    for one in apps:

        @one.agent(on("go"), state=Seen)
        async def counter(run: Run) -> None:
            nonlocal inside, most
            inside += 1
            most = max(most, inside)
            await asyncio.sleep(0)
            run.state.count += 1
            inside -= 1

    async with working(apps[0]) as first, working(apps[1]) as second:
        for number in range(20):
            await apps[number % 2].emit("go", id=str(number))
        for _ in range(3):
            await asyncio.gather(first.drain(), second.drain())
        assert await kept(first) == {"count": 20, "names": []}
    assert most == 1


async def test_a_run_that_fails_saves_nothing(app: App):
    @app.agent(on("go"), state=Seen)
    async def counter(run: Run) -> None:
        run.state.count += 1
        if run.event.data == "bad":
            raise Persistent("no")

    async with working(app) as runtime:
        await go(runtime, "bad", id="1")
        await go(runtime, id="2")
        assert await kept(runtime) == {"count": 1, "names": []}


async def test_a_retried_run_keeps_its_turn_and_sees_what_it_saw(app: App):
    seen: list[tuple[str, int]] = []

    @app.agent(on("go"), state=Seen)
    async def counter(run: Run) -> None:
        seen.append((run.event.id, run.state.count))
        run.state.count += 1
        if run.event.id == "1" and run.attempt == 1:
            raise Transient("again")

    async with working(app) as runtime:
        first = await app.emit("go", id="1")
        await runtime.drain()
        second = await app.emit("go", id="2")
        await runtime.drain()
        assert (await the_run(runtime, second))["state"] == "ready", "the first one still has the state"
        await pass_time(runtime)
        assert (await the_run(runtime, first))["state"] == "done"
        assert (await the_run(runtime, second))["state"] == "done"
        assert await kept(runtime) == {"count": 2, "names": []}
    assert seen == [("1", 0), ("1", 0), ("2", 1)]


async def test_a_dead_letter_gives_its_turn_away(app: App):
    @app.agent(on("go"), state=Seen)
    async def counter(run: Run) -> None:
        run.state.names.append(run.event.id)
        if run.event.id == "1" and len(run.state.names) == 1:
            raise Persistent("not first")

    async with working(app) as runtime:
        first = await go(runtime, id="1")
        await go(runtime, id="2")
        assert first["state"] == "dead"
        await runtime.store.do(RedoRun(first["id"], by=Actor("me", "code")))
        await runtime.drain()
        assert await kept(runtime) == {"count": 0, "names": ["2", "1"]}


async def test_a_change_from_outside_lets_the_run_go_again(app: App):
    reached, go_on = asyncio.Event(), asyncio.Event()
    seen: list[int] = []

    async def work() -> None:
        reached.set()
        await go_on.wait()

    @app.agent(on("go"), state=Seen)
    async def counter(run: Run) -> None:
        seen.append(run.state.count)
        run.state.count += 1
        await run.step(work)

    async with working(app) as runtime:
        receipt = await app.emit("go")
        await reached.wait()
        assert await runtime.store.do(ChangeState("app", "counter", "", '{"count": 100}', by=Actor("me", "code"))) == 1
        go_on.set()
        run = await ended(runtime, receipt)
        assert run["state"] == "done"
        assert await kept(runtime) == {"count": 101, "names": []}
    assert seen == [0, 100]
    assert run["attempts"] == 1, "it is nobody's failure"


async def test_a_run_that_only_reads_is_not_sent_back(app: App):
    reached, go_on = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        reached.set()
        await go_on.wait()

    @app.agent(on("go"), state=Seen)
    async def counter(run: Run) -> int:
        before = run.state.count
        await run.step(work)
        return before

    async with working(app) as runtime:
        receipt = await app.emit("go")
        await reached.wait()
        await runtime.store.do(ChangeState("app", "counter", "", '{"count": 100}', by=Actor("me", "code")))
        go_on.set()
        run = await ended(runtime, receipt)
    assert (run["state"], run["output"]) == ("done", 0)


async def test_it_can_be_replaced(app: App):
    @app.agent(on("go"), state=Seen)
    async def counter(run: Run) -> None:
        run.state = Seen(count=7)

    async with working(app) as runtime:
        await go(runtime)
        assert await kept(runtime) == {"count": 7, "names": []}


async def test_a_dataclass_will_do(app: App):
    @dataclass
    class Kept:
        names: list[str] = field(default_factory=list)

    @app.agent(on("go"), state=Kept)
    async def counter(run: Run) -> None:
        run.state.names.append(run.event.id)

    async with working(app) as runtime:
        await go(runtime, id="a")
        await go(runtime, id="b")
        assert await kept(runtime) == {"names": ["a", "b"]}


async def test_it_is_saved_with_what_leaves_and_held_with_it(app: App):
    @app.agent(on("go"), state=Seen, checks=[lambda output: output < 2 or "too many"])
    async def counter(run: Run) -> int:
        run.state.count += 1
        return int(run.state.count)

    async with working(app) as runtime:
        await go(runtime, id="1")
        second = await go(runtime, id="2")
        assert second["state"] == "held"
        assert await kept(runtime) == {"count": 1, "names": []}
        await runtime.store.do(ReleaseRun(second["id"], by=Actor("me", "code")))
        await runtime.drain()
        assert await kept(runtime) == {"count": 2, "names": []}


async def test_a_held_change_that_was_overtaken_is_not_saved(app: App):
    @app.agent(on("go"), state=Seen, checks=[lambda output: output != "hold" or "look"])
    async def counter(run: Run) -> str:
        run.state.names.append(run.event.id)
        return "hold" if run.event.id == "1" else "fine"

    async with working(app) as runtime:
        first = await go(runtime, id="1")
        await go(runtime, id="2")
        refused = await runtime.store.do(ReleaseRun(first["id"], by=Actor("me", "code")))
        assert refused is not None
        assert refused.refused is not None
        assert "a newer state" in refused.refused
        assert await kept(runtime) == {"count": 0, "names": ["2"]}


class TestBadInput:
    async def test_without_a_state(self, app: App):
        @app.agent(on("go"))
        async def counter(run: Run) -> None:
            run.state.count += 1

        async with working(app) as runtime:
            run = await go(runtime)
        assert "agent counter has no state: declare it with @app.agent(…, state=Model)" in run["error"]["message"]

    def test_a_model_without_defaults(self, app: App):
        class Strict(BaseModel):
            count: int

        with pytest.raises(ConfigError, match=r"state=Strict cannot be created without arguments"):

            @app.agent(on("go"), state=Strict)
            async def counter(run: Run) -> None: ...

    def test_what_is_no_class(self, app: App):
        with pytest.raises(ConfigError, match=r"state must be a class"):

            @app.agent(on("go"), state=Seen())
            async def counter(run: Run) -> None: ...

    async def test_what_is_stored_does_not_fit(self, app: App):
        count(app)
        async with working(app) as runtime:
            await runtime.store.do(ChangeState("app", "counter", "", '{"count": "many"}', by=Actor("me", "code")))
            run = await go(runtime)
        assert run["error"]["type"] == "InvalidState"
        assert "wakeful state show counter" in run["error"]["message"]

    async def test_what_is_saved_does_not_fit(self, app: App):
        @app.agent(on("go"), state=Seen)
        async def counter(run: Run) -> None:
            run.state.count = "many"

        async with working(app) as runtime:
            run = await go(runtime)
        assert run["error"]["type"] == "InvalidState"
        assert "count" in run["error"]["message"]
