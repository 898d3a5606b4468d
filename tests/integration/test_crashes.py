"""Crashes count apart: a run that takes its process with it ends dead, and takes nobody else with it.

A crash is played by declaring a process dead while its handler is in flight, as the others do when its lease is over.
The real thing, with real processes and SIGKILL, is in tests/crash.
"""

from __future__ import annotations

import asyncio

from support.apps import NewApp, ended, the_run, working
from wakeful import App, Run, on
from wakeful.clock import duration
from wakeful.model import Receipt
from wakeful.runtime import Runtime
from wakeful.stores.base import BuryProcess, ClaimRuns, RegisterProcess


async def die_with(runtime: Runtime, *agents: str, name: str) -> list[str]:
    """A process that claims what is due and dies with it in its hands."""
    store = runtime.store
    await store.register(RegisterProcess(name, "host", 1, duration("15s")))
    claimed = await store.claim(
        ClaimRuns(runtime.app.name, name, lambda: [(agent, 10) for agent in agents], lambda: True), now=True
    )
    await store.bury(BuryProcess(name, certain=True))
    return [claim.id for claim in claimed.claims]


async def test_a_crash_is_counted_and_uses_up_no_attempt(new_app: NewApp):
    app = new_app()

    @app.agent(on("go"), attempts=1)
    async def agent(run: Run) -> int:
        return run.attempt

    async with working(new_app(), worker=False) as outside:
        async with working(app, worker=False):
            receipt = await app.emit("go")
        await die_with(outside, "agent", name="victim")
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
        for number in range(3):
            assert await die_with(runtime, "agent", name=f"victim {number}") == receipt.runs
    async with working(app) as runtime:
        run = await ended(runtime, receipt)
        alarms = (await runtime.reader.alarms())["alarms"]
    assert started == []
    assert (run["state"], run["crashes"], run["attempts"]) == ("dead", 3, 0)
    assert (run["error"]["type"], run["reason"]) == ("TooManyCrashes", "crashed too often")
    assert "in flight in 3 processes that died, 3 allowed" in run["error"]["message"]
    assert len(alarms) == 1


async def test_a_run_that_crashed_twice_runs_alone(new_app: NewApp):
    """Nothing runs beside it, and nothing is begun beside it; afterwards everything goes on."""
    app = new_app()
    beside: list[tuple[str, set[str]]] = []
    now: set[str] = set()
    neighbour_runs, neighbour_goes_on = asyncio.Event(), asyncio.Event()

    @app.agent(on("go"))
    async def agent(run: Run) -> None:
        now.add(run.event.id)
        beside.append((run.event.id, now - {run.event.id}))
        if run.event.id == "neighbour":
            neighbour_runs.set()
            await neighbour_goes_on.wait()
        else:
            await run.step(turn)
        now.discard(run.event.id)

    async def turn() -> None:
        for _ in range(20):
            await asyncio.sleep(0)

    async with working(app, worker=False) as runtime:
        poison = await app.emit("go", id="poison")
        for number in range(2):
            await die_with(runtime, "agent", name=f"victim {number}")
    async with working(app, worker=False) as runtime:
        # Parked for the moment: the neighbour must be running first.
        claim = (await _claims(runtime, "holder"))[0]
        await app.emit("go", id="neighbour")
        async with working(new_app_with(app, new_app)) as worker:
            await neighbour_runs.wait()
            await _give_back(runtime, claim)
            for number in range(5):
                await app.emit("go", id=str(number))
            worker.worker.look()
            await worker.reader.counts()
            neighbour_goes_on.set()
            await worker.drain()
            assert (await the_run(worker, poison))["state"] == "done"
            assert await worker.reader.counts() == {"done": 7}
    (alone,) = [others for identifier, others in beside if identifier == "poison"]
    assert alone == set()
    assert all("poison" not in others for _, others in beside)


def new_app_with(app: App, new_app: NewApp) -> App:
    """Another process of the same app."""
    other = new_app()
    other.agents.update(app.agents)
    return other


async def _claims(runtime: Runtime, name: str):
    await runtime.store.register(RegisterProcess(name, "host", 1, duration("36500d")))
    request = ClaimRuns(runtime.app.name, name, lambda: [("agent", 10)], lambda: True)
    return (await runtime.store.claim(request, now=True)).claims


async def _give_back(runtime: Runtime, claim) -> None:
    from wakeful.stores.base import LeaveRun

    await runtime.store.leave(LeaveRun(claim, "ready", "released"))


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
            await heir.store.bury(BuryProcess(before, certain=True))
            run = await ended(heir, receipt)
            assert (run["output"], run["crashes"]) == ("from the heir", 1)
            decided.set()
            await zombie.worker.idle()
            assert (await the_run(heir, receipt))["output"] == "from the heir"
        # The lease keeper finds out by itself, and the process joins again under a new identity.
        async with asyncio.timeout(20):
            while zombie.membership.process == before:
                await asyncio.sleep(0)
        again = await slow.emit("go", id="2")
        async with asyncio.timeout(20):
            while (await the_run(zombie, again))["state"] != "done":
                pass
        assert (await the_run(zombie, again))["output"] == "from the same process under a new name"
