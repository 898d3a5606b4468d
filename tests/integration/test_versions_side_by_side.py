"""Old and new code side by side, as a rolling deployment has them, on both stores: runs stay with the code that they belong to.
Two apps of one name are two versions of a program.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from support.apps import NewApp, ended, the_run, working
from wakeful import App, Persistent, Run, Transient, on
from wakeful.clock import VirtualClock
from wakeful.errors import ConfigError
from wakeful.execution.versions import RESTARTS
from wakeful.model import Receipt
from wakeful.runtime import Runtime
from wakeful.stores.request import Actor
from wakeful.stores.verbs.redo import RedoRun


class Program:
    """An agent whose attempts fail, one after the other, until it is let through; which code ran each of them is noted. An event
    of type "busy" keeps the one place of its process until the end.
    """

    def __init__(self, new_app: NewApp) -> None:
        self._new_app = new_app
        self.ran: list[str] = []
        self.fails = True
        self.busy = asyncio.Event()
        self.over = asyncio.Event()

    def version(self, version: str, on_change: str = "restart", **options: Any) -> App:
        app = self._new_app(in_flight=1)
        options = {"attempts": 99, "alarm_after": None, "pause_after": None, **options}

        async def fetch() -> str:
            return version

        @app.agent(on("go"), name="agent", version=version, on_change=on_change, **options)
        async def agent(run: Run) -> str:
            self.ran.append(version)
            fetched = await run.step(fetch)
            if self.fails:
                raise Transient("not now", retry_after="1h")
            return f"{version}, with what {fetched} fetched"

        @app.agent(on("busy"), name="keeper", version=version)
        async def keeper(run: Run) -> None:
            self.busy.set()
            await self.over.wait()

        return app

    async def begin(self, runtime: Runtime) -> Receipt:
        receipt = await runtime.app.emit("go")
        assert (await ended(runtime, receipt))["state"] == "waiting"
        return receipt

    async def keep_busy(self, runtime: Runtime) -> None:
        """From now on it has no place for anything else, until `over`."""
        await runtime.app.emit("busy")
        await self.busy.wait()


@pytest.fixture
def program(new_app: NewApp) -> Program:
    return Program(new_app)


def due_again(clock: VirtualClock) -> None:
    """A moment after the next attempt is due, and long before `drain` has passed."""
    clock.move("1h")
    clock.move("1s")


async def side_by_side(program: Program, first: Runtime, second: Runtime) -> Receipt:
    """A run that the second one began, while the first one had no place for it."""
    receipt = await program.begin(second)
    assert program.ran[-1] == second.app.agents["agent"].options.version
    program.over.set()
    await first.worker.idle()
    return receipt


@pytest.mark.parametrize("on_change", ["restart", "hold", "continue"])
async def test_each_goes_on_with_its_own_runs(program: Program, clock: VirtualClock, on_change: str):
    old, new = program.version("1", on_change), program.version("2", on_change)
    async with working(old) as first:
        of_old = await program.begin(first)
        await program.keep_busy(first)
        async with working(new) as second:
            of_new = await side_by_side(program, first, second)
            program.ran.clear()
            for _ in range(3):
                due_again(clock)
                await second.drain()
                await first.drain()
            assert sorted(program.ran) == ["1", "1", "1", "2", "2", "2"]
            program.fails = False
            due_again(clock)
            await asyncio.gather(first.drain(), second.drain())
            runs = [await the_run(second, receipt) for receipt in (of_old, of_new)]
            assert not [one for one in (await first.reader.alarms())["alarms"] if one["key"].startswith("change/")]
    assert [run["output"] for run in runs] == ["1, with what 1 fetched", "2, with what 2 fetched"]
    assert [run["change"] for run in runs] == [None, None]


async def test_a_run_waits_for_its_own_code_and_says_so(program: Program, clock: VirtualClock):
    async with working(program.version("1")) as first:
        receipt = await program.begin(first)
        await program.keep_busy(first)
        async with working(program.version("2")) as second:
            due_again(clock)
            run = await ended(second, receipt)
            assert (run["state"], program.ran) == ("waiting", ["1"])
            assert run["awaits_code"]["version"] == "1"
            story = await second.reader.why(run["id"])
            assert story is not None
            assert "Version 1 of agent agent ran it last and takes it when it is due" in " ".join(story["story"])
            program.over.set()
            await first.stop()
            assert (await ended(second, receipt))["state"] == "waiting"
    assert program.ran == ["1", "2"], "nobody has the old code any more, and the new one did not take it"


async def test_after_a_while_new_code_takes_what_old_code_leaves_and_it_never_goes_back(
    program: Program, clock: VirtualClock
):
    async with working(program.version("1")) as first:
        receipt = await program.begin(first)
        await program.keep_busy(first)
        async with working(program.version("2", drain="5m")) as second:
            due_again(clock)
            await second.drain()
            assert program.ran == ["1"]
            clock.move("5m")
            await second.drain()
            assert program.ran == ["1", "2"]
            program.over.set()
            await first.worker.idle()
            clock.move("9h")
            await first.drain()
            assert program.ran == ["1", "2"], "it went back to old code, while new code is there"
            await second.drain()
            assert program.ran == ["1", "2", "2"]
            run = await the_run(second, receipt)
            story = await second.reader.why(run["id"])
    assert [(one["was"], one["now"], one["restarted"]) for one in run["change"]["changes"]] == [("1", "2", True)]
    assert story is not None
    assert any("version 1 to 2, and it started from the top" in line for line in story["story"])


async def test_a_run_of_new_code_does_not_start_anew_in_old_code(program: Program, clock: VirtualClock):
    """The new one goes while the old one stays, as when a deployment stops half-way."""
    async with working(program.version("1")) as first:
        await program.begin(first)
        await program.keep_busy(first)
        async with working(program.version("2")) as second:
            receipt = await side_by_side(program, first, second)
        program.ran.clear()
        due_again(clock)
        await first.drain()
        assert program.ran == ["1"], "only its own"
        run = await the_run(first, receipt)
        assert (run["state"], run["awaits_code"]["live"]) == ("waiting", False)
        story = await first.reader.why(run["id"])
        assert story is not None
        assert "which no worker has now" in " ".join(story["story"])
        clock.move("10m")
        await first.drain()
        run = await the_run(first, receipt)
        assert (run["state"], program.ran) == ("held", ["1"])
        assert run["reason"].startswith("newer code began it (version 2), but only older code (version 1) is running")
        program.fails = False
        await first.store.do(RedoRun(run["id"], by=Actor("ada", "code")))
        run = await ended(first, receipt)
    assert (run["state"], run["output"]) == ("done", "1, with what 2 fetched")


async def test_nor_in_an_old_process_that_came_later(program: Program, clock: VirtualClock):
    """It starts again in the middle of a deployment, and is alone in the end."""
    async with working(program.version("1")) as first:
        await program.begin(first)
        await program.keep_busy(first)
        async with working(program.version("2")) as second:
            receipt = await side_by_side(program, first, second)
            async with working(program.version("1")) as third:
                await second.stop()
                await first.stop()
                program.ran.clear()
                due_again(clock)
                await third.drain()
                assert program.ran == ["1"], "only its own"
                assert (await the_run(third, receipt))["state"] == "waiting"


async def test_nor_where_every_version_continues_what_another_recorded(program: Program, clock: VirtualClock):
    async with working(program.version("1", "continue")) as first:
        await program.begin(first)
        await program.keep_busy(first)
        async with working(program.version("2", "continue")) as second:
            receipt = await side_by_side(program, first, second)
        program.ran.clear()
        due_again(clock)
        await first.drain()
        assert (await the_run(first, receipt))["state"] == "waiting"
        clock.move("10m")
        await first.drain()
        run = await the_run(first, receipt)
        assert (run["state"], program.ran) == ("held", ["1"]), "only its own"
        assert "`wakeful replay RUN`" in run["reason"]
        async with working(program.version("2", "continue")) as third:
            program.fails = False
            await third.store.do(RedoRun(run["id"], by=Actor("ada", "code")))
            run = await ended(third, receipt)
    assert (run["state"], run["output"]) == ("done", "2, with what 2 fetched")


async def test_a_rollback_is_a_deployment_as_any_other(program: Program, clock: VirtualClock):
    async with working(program.version("1")) as first:
        await program.begin(first)
    async with working(program.version("2")) as second:
        receipt = await program.begin(second)
        async with working(program.version("1")) as third:
            await second.stop()
            due_again(clock)
            program.fails = False
            run = await ended(third, receipt)
    assert (run["state"], run["output"]) == ("done", "1, with what 1 fetched")


async def test_it_starts_anew_a_few_times_and_is_held_then(program: Program, clock: VirtualClock):
    async with working(program.version("0")) as runtime:
        receipt = await program.begin(runtime)
    for number in range(1, RESTARTS + 2):
        due_again(clock)
        async with working(program.version(str(number))) as runtime:
            run = await ended(runtime, receipt)
            assert len(run["change"]["changes"]) == min(number, RESTARTS)
            alarms = {one["key"] for one in (await runtime.reader.alarms(state="open"))["alarms"]}
            assert ("change/app/agent" in alarms) == (number > 1), "one restart is what was asked for"
            story = await runtime.reader.why(run["id"])
    assert (run["state"], len(program.ran)) == ("held", RESTARTS + 1)
    assert f"it restarted from the top {RESTARTS} times within a day for that reason" in run["reason"]
    assert "held/app/agent/version" in alarms
    assert story is not None
    told = [line for line in story["story"] if line.startswith("Its code changed while it was under way")]
    assert len(told) == RESTARTS
    program.fails = False
    async with working(program.version("9")) as runtime:
        await runtime.store.do(RedoRun(run["id"], by=Actor("ada", "code")))
        run = await ended(runtime, receipt)
    assert (run["state"], run["output"]) == ("done", f"9, with what {RESTARTS} fetched")


async def test_deployments_on_many_days_restart_it_each_time(program: Program, clock: VirtualClock):
    async with working(program.version("0")) as runtime:
        receipt = await program.begin(runtime)
    for number in range(1, RESTARTS + 4):
        clock.move("23h")
        due_again(clock)
        async with working(program.version(str(number))) as runtime:
            assert (await ended(runtime, receipt))["state"] == "waiting"


async def test_one_that_died_for_good_is_replayed_by_whoever_is_there(new_app: NewApp):
    old, new = new_app(), new_app()

    @old.agent(on("go"), name="agent", version="1", on_change="restart")
    async def broken(run: Run) -> None:
        raise Persistent("broken")

    @new.agent(on("go"), name="agent", version="2", on_change="restart")
    async def mended(run: Run) -> str:
        return "mended"

    async with working(old) as first:
        receipt = await old.emit("go")
        assert (await ended(first, receipt))["state"] == "dead"
        async with working(new) as second:
            await first.worker.stop(0)
            await second.store.do(RedoRun(receipt.runs[0], by=Actor("ada", "code")))
            assert (await ended(second, receipt))["output"] == "mended"


@pytest.mark.parametrize("given", [None, "soon", 0])
def test_drain_is_a_duration(new_app: NewApp, given: Any):
    with pytest.raises(ConfigError, match="drain"):
        new_app(drain=given)
