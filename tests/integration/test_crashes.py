"""Crashes count apart: a run that takes its process with it ends dead, and takes nobody else with it.

A crash is played by declaring a process dead while its handler is in flight, as the others do when its lease is over.
The real thing, with real processes and SIGKILL, is in tests/crash.
"""

from __future__ import annotations

import asyncio

from support.apps import NewApp, ended, the_run, working
from support.stores import join
from wakeful import Run, on
from wakeful.clock import duration
from wakeful.model import Receipt
from wakeful.runtime import Runtime
from wakeful.stores.verbs.processes import BuryProcess


async def die_with(runtime: Runtime, agent: str = "agent") -> list[str]:
    """A process that claims what is due and dies with it in its hands."""
    victim = await join(runtime.store, "victim")
    claims = await victim.claim(agent)
    await victim.bury(victim)
    return [claim.id for claim in claims]


async def test_a_crash_is_counted_and_uses_up_no_attempt(new_app: NewApp):
    app = new_app()

    @app.agent(on("go"), attempts=1)
    async def agent(run: Run) -> int:
        return run.attempt

    async with working(new_app(), worker=False) as outside:
        async with working(app, worker=False):
            receipt = await app.emit("go")
        await die_with(outside)
    async with working(app) as runtime:
        run = await ended(runtime, receipt)
    assert (run["state"], run["output"], run["crashes"], run["attempts"]) == ("done", 1, 1, 1)
    assert [attempt["outcome"] for attempt in run["history"]] == ["crashed"]


async def test_after_max_crashes_it_is_dead_and_never_starts_again(new_app: NewApp):
    app = new_app()
    started = []

    @app.agent(on("go"), max_crashes=3)
    async def agent(run: Run) -> None:
        started.append(run.id)

    async with working(app, worker=False) as runtime:
        receipt = await app.emit("go")
        for _ in range(3):
            assert await die_with(runtime) == receipt.runs
    async with working(app) as runtime:
        run = await ended(runtime, receipt)
        alarms = (await runtime.reader.alarms())["alarms"]
    assert started == []
    assert (run["state"], run["crashes"], run["attempts"]) == ("dead", 3, 0)
    assert (run["error"]["type"], run["reason"]) == ("TooManyCrashes", "crashed too often")
    assert "in flight in 3 processes that died, 3 allowed" in run["error"]["message"]
    assert len(alarms) == 1


async def test_a_run_that_crashed_twice_runs_alone(new_app: NewApp):
    """It waits until its neighbour has ended, nothing is begun beside it, and afterwards everything goes on."""
    app, other = new_app(), new_app()
    running: set[str] = set()
    beside: dict[str, set[str]] = {}
    neighbour_runs, neighbour_goes_on = asyncio.Event(), asyncio.Event()

    async def take_turns() -> None:
        for _ in range(20):
            await asyncio.sleep(0)

    for process in (app, other):

        @process.agent(on("go"), name="agent")
        async def agent(run: Run) -> None:
            identifier = run.event.id
            for there in running:
                beside[there].add(identifier)
            beside[identifier] = set(running)
            running.add(identifier)
            if identifier == "neighbour":
                neighbour_runs.set()
                await neighbour_goes_on.wait()
            else:
                await run.step(take_turns)
            running.discard(identifier)

    async with working(app, worker=False) as outside:
        poison = await app.emit("go", id="poison")
        await die_with(outside)
        await die_with(outside)
        holder = await join(outside.store, "holder", lease="36500d")
        held = await holder.claim_one()  # kept back until the neighbour runs
        async with working(other) as runtime:
            await app.emit("go", id="neighbour")
            await neighbour_runs.wait()
            await holder.leave(held)
            for number in range(5):
                await other.emit("go", id=str(number))
            neighbour_goes_on.set()
            await runtime.drain()
            assert (await the_run(runtime, poison))["state"] == "done"
            assert await runtime.reader.counts() == {"done": 7}
    assert beside["poison"] == set()


async def test_the_zombie_of_a_crash_that_was_none_commits_nothing(new_app: NewApp):
    """A process that was only slow: declared dead, its runs taken over, it comes back and is refused, then starts anew."""
    slow, quick = new_app(), new_app()
    thinking, decided = asyncio.Event(), asyncio.Event()

    @slow.agent(on("go"), name="agent")
    async def thinks(run: Run) -> str:
        if not thinking.is_set():
            thinking.set()
            await decided.wait()
            return "from the zombie"
        return "from the same process under a new name"

    @quick.agent(on("go"), name="agent")
    async def acts(run: Run) -> str:
        return "from the heir"

    async with working(slow, lease=duration("60ms")) as zombie:
        receipt: Receipt = await slow.emit("go", id="1")
        await thinking.wait()
        before = zombie.membership.process
        async with working(quick) as heir:
            await heir.store.do(BuryProcess(before, certain=True))
            run = await ended(heir, receipt)
            assert (run["output"], run["crashes"]) == ("from the heir", 1)
            decided.set()
            await zombie.worker.idle()
            assert (await the_run(heir, receipt))["output"] == "from the heir"
        # The lease keeper finds out by itself, and the process joins again under a new identity.
        async with asyncio.timeout(60):
            while zombie.membership.process == before:
                await asyncio.sleep(0)
        again = await slow.emit("go", id="2")
        async with asyncio.timeout(60):
            while (await the_run(zombie, again))["state"] != "done":
                pass
        assert (await the_run(zombie, again))["output"] == "from the same process under a new name"
