"""Code that changes while runs are in flight, on both stores. Two apps of one name are two versions of a program."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from support.apps import NewApp, ended, the_run, working
from wakeful import App, Operation, Persistent, Run, Transient, action, on
from wakeful.clock import VirtualClock
from wakeful.execution.versions import version_of
from wakeful.functions.options import AgentOptions
from wakeful.runtime import Runtime
from wakeful.stores.request import Actor
from wakeful.stores.verbs.cancel import CancelRun
from wakeful.stores.verbs.redo import RedoRun


class Program:
    """Fetches, books, and fails at its first attempts; the second version asks for other steps."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.fails = True

        async def fetch() -> str:
            self.calls.append("fetch")
            return "fetched"

        async def weigh() -> str:
            self.calls.append("weigh")
            return "weighed"

        @action(safety="idempotent")
        async def book(op: Operation) -> str:
            self.calls.append("book")
            return "booked"

        self.fetch, self.weigh, self.book = fetch, weigh, book

    def old(self, app: App, **options: Any) -> None:
        @app.agent(on("go"), name="agent", backoff="1h", **options)
        async def agent(run: Run) -> str:
            await run.step(self.fetch)
            await run.act(self.book)
            await run.step(self.weigh)
            if self.fails:
                raise Transient("not now", retry_after="1h")
            return "old"

    def new(self, app: App, **options: Any) -> None:
        @app.agent(on("go"), name="agent", backoff="1h", **options)
        async def agent(run: Run) -> str:
            fetched = await run.step(self.fetch)
            booked = await run.act(self.book)
            return f"new: {fetched}, {booked}"


async def meets_new_code(
    new_app: NewApp, clock: VirtualClock, program: Program, **options: Any
) -> tuple[Runtime, dict[str, Any]]:
    old, new = new_app(), new_app()
    program.old(old)
    program.new(new, **options)
    async with working(old) as runtime:
        receipt = await old.emit("go")
        run = await ended(runtime, receipt)
        assert run["state"] == "waiting"
    program.calls.clear()
    clock.move("2h")
    async with working(new) as runtime:
        return runtime, await ended(runtime, receipt)


async def test_it_goes_on_and_says_what_was_never_asked_for(new_app: NewApp, clock: VirtualClock):
    program = Program()
    old, new = new_app(), new_app()
    program.old(old)
    program.new(new)
    async with working(old) as runtime:
        receipt = await old.emit("go")
        before = await ended(runtime, receipt)
    clock.move("2h")
    program.calls.clear()
    async with working(new) as runtime:
        run = await ended(runtime, receipt)
        alarms = (await runtime.reader.alarms(state="open"))["alarms"]
        story = await runtime.reader.why(run["id"])
    assert (run["state"], run["output"]) == ("done", "new: fetched, booked")
    assert program.calls == []
    assert run["version"] == before["version"]
    assert run["change"]["not_asked_for"] == ["weigh"]
    assert run["change"]["was"] == before["version"]
    (alarm,) = alarms
    assert alarm["key"] == "change/app/agent"
    assert run["id"] in alarm["text"]
    assert "weigh" in alarm["text"]
    assert story is not None
    assert any("never asked for 1 recorded step" in line and "weigh" in line for line in story["story"])


async def test_the_same_code_says_nothing(app: App, clock: VirtualClock):
    program = Program()
    program.old(app)
    async with working(app) as runtime:
        receipt = await app.emit("go")
        await ended(runtime, receipt)
        program.fails = False
        clock.move("2h")
        run = await ended(runtime, receipt)
        assert (await runtime.reader.alarms())["alarms"] == []
    assert (run["state"], run["output"], run["change"]) == ("done", "old", None)


async def test_it_starts_from_the_top_and_finds_what_it_did_outside(new_app: NewApp, clock: VirtualClock):
    program = Program()
    _, run = await meets_new_code(new_app, clock, program, on_change="restart")
    assert (run["state"], run["output"]) == ("done", "new: fetched, booked")
    assert program.calls == ["fetch"]
    assert [step["name"] for step in run["steps"]] == ["fetch"]
    assert (run["change"]["restarted"], run["change"]["now"]) == (True, run["version"])
    assert run["change"]["not_asked_for"] == []


async def test_it_is_held_until_a_person_says_something(new_app: NewApp, clock: VirtualClock):
    program = Program()
    old, new = new_app(), new_app()
    program.old(old)
    program.new(new, on_change="hold")
    async with working(old) as runtime:
        receipt = await old.emit("go")
        before = await ended(runtime, receipt)
    clock.move("2h")
    async with working(new) as runtime:
        run = await ended(runtime, receipt)
        story = await runtime.reader.why(run["id"])
        assert run["state"] == "held"
        assert run["reason"].startswith(f"its code changed since it began: version {before['version']} then")
        assert story is not None
        assert f"`wakeful replay {run['id']}` continues it with the current code" in story["story"][-1]
        (alarm,) = (await runtime.reader.alarms(state="open"))["alarms"]
        assert alarm["key"] == "held/app/agent/version"
        redone = await runtime.store.do(RedoRun(run["id"], by=Actor("ada", "code")))
        assert redone is not None
        assert redone.refused is None
        run = await ended(runtime, receipt)
        assert (run["state"], run["output"]) == ("done", "new: fetched, booked")
        assert run["change"]["not_asked_for"] == ["weigh"]
        assert run["version"] == run["change"]["now"]
        keys = [one["key"] for one in (await runtime.reader.alarms(state="open"))["alarms"]]
    assert keys == ["change/app/agent"]
    assert program.calls.count("book") == 1


async def test_one_that_is_held_can_be_cancelled(new_app: NewApp, clock: VirtualClock):
    program = Program()
    old, new = new_app(), new_app()
    program.old(old)
    program.new(new, on_change="hold")
    async with working(old) as runtime:
        receipt = await old.emit("go")
        await ended(runtime, receipt)
    clock.move("2h")
    async with working(new) as runtime:
        run = await ended(runtime, receipt)
        await runtime.store.do(CancelRun(run["id"], by=Actor("ada", "code")))
        run = await ended(runtime, receipt)
        assert (await runtime.reader.alarms(state="open"))["alarms"] == []
    assert (run["state"], run["reason"]) == ("cancelled", "cancelled by ada; not undone (no undo declared): book")


async def test_a_replay_of_a_dead_one_goes_on_with_mended_code(new_app: NewApp):
    program = Program()
    old, new = new_app(), new_app()

    @old.agent(on("go"), name="agent", on_change="hold")
    async def broken(run: Run) -> None:
        await run.step(program.fetch)
        await run.step(program.weigh)
        raise Persistent("broken")

    program.new(new, on_change="hold")
    async with working(old) as runtime:
        receipt = await old.emit("go")
        assert (await ended(runtime, receipt))["state"] == "dead"
    async with working(new) as runtime:
        await runtime.store.do(RedoRun(receipt.runs[0], by=Actor("ada", "code")))
        run = await ended(runtime, receipt)
    assert (run["state"], run["output"]) == ("done", "new: fetched, booked")
    assert run["change"]["not_asked_for"] == ["weigh"]


async def test_a_committed_one_only_releases_what_is_left(new_app: NewApp):
    done: list[int] = []
    begun = asyncio.Event()
    never = asyncio.Event()
    old, new = new_app(), new_app()

    @action(safety="idempotent")
    async def book(op: Operation, number: int) -> None:
        if not done:
            begun.set()
            await never.wait()
        done.append(number)

    @old.agent(on("go"), name="agent")
    async def before(run: Run) -> str:
        run.stage(book, 1)
        return "output"

    @new.agent(on("go"), name="agent", on_change="hold")
    async def after(run: Run) -> str:
        return "never runs"

    async with working(old, grace=0.0) as runtime:
        receipt = await old.emit("go")
        await begun.wait()
    done.append(0)
    async with working(new) as runtime:
        run = await ended(runtime, receipt)
    assert (run["state"], run["output"], done) == ("done", "output", [0, 1])


async def test_old_and_new_side_by_side_resume_each_others_runs(new_app: NewApp, clock: VirtualClock):
    program = Program()
    old, new = new_app(), new_app()
    program.old(old)
    program.new(new)
    async with working(old) as first, working(new) as second:
        receipts = [await old.emit("go") for _ in range(10)]
        await first.drain()
        await second.drain()
        program.fails = False
        clock.move("2h")
        await asyncio.gather(first.drain(), second.drain())
        runs = [await the_run(second, receipt) for receipt in receipts]
    assert {run["state"] for run in runs} == {"done"}
    assert {run["output"] for run in runs} <= {"old", "new: fetched, booked"}
    assert program.calls.count("book") == 10


class TestAVersion:
    def test_is_what_was_given(self):
        assert version_of(len, AgentOptions(version="3")) == "3"

    def test_is_that_of_the_source(self):
        def one(run: Run) -> int:
            return 1

        first = one

        def one(run: Run) -> int:  # type: ignore[no-redef]
            return 2

        options = AgentOptions()
        assert version_of(first, options) != version_of(one, options)
        assert version_of(first, options) == version_of(first, options)
        assert len(version_of(first, options)) == 10

    @pytest.mark.parametrize(("text", "same"), [("return 1", True), ("return 2", False), ("return len('a')", False)])
    def test_without_source_is_that_of_the_code(self, text: str, same: bool):
        made: list[Any] = []
        for body in ("return 1", text):
            place: dict[str, Any] = {}
            exec(f"def handler(run):\n    {body}", place)  # noqa: S102 a function without source
            made.append(place["handler"])
        options = AgentOptions()
        assert (version_of(made[0], options) == version_of(made[1], options)) is same

    def test_of_an_object_that_is_called(self):
        class Handler:
            __hash__ = None  # type: ignore[assignment]

            async def __call__(self, run: Run) -> None: ...

        assert version_of(Handler(), AgentOptions()) == version_of(Handler(), AgentOptions())
