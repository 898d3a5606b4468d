"""The worker: as much at once as there is room for, and nothing held for what only waits."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

from support.apps import NewApp, ended, go, pass_time, the_run, working
from wakeful import App, Operation, Persistent, Run, Transient, action, on
from wakeful.execution.hearing import Hearing
from wakeful.stores.request import Ready


async def test_a_sleeping_run_costs_one_timer_however_often_the_worker_looks(app: App):
    @app.agent(on("sleep"))
    async def sleeper(run: Run) -> None:
        if run.attempt == 1:
            raise Transient("later", retry_after="2d")

    @app.agent(on("go"))
    async def quick(run: Run) -> None: ...

    async with working(app) as runtime:
        await app.emit("sleep")
        await runtime.drain()
        for _ in range(50):
            await app.emit("go")
            await runtime.drain()
        far = asyncio.get_running_loop().time() + 86400
        scheduled: list[asyncio.TimerHandle] = vars(asyncio.get_running_loop())["_scheduled"]
        timers = [timer for timer in scheduled if timer.when() > far and not timer.cancelled()]
        assert len(timers) <= 1


async def test_concurrency_limits_one_agent_and_not_the_others(app: App):
    release = asyncio.Event()
    now, most = 0, 0
    others: asyncio.Queue[str] = asyncio.Queue()

    @app.agent(on("go"), concurrency=2)
    async def limited(run: Run) -> None:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await release.wait()
        now -= 1

    @app.agent(on("other"))
    async def free(run: Run) -> None:
        others.put_nowait(run.event.id)

    async with working(app) as runtime:
        for number in range(7):
            await app.emit("go", id=str(number))
        for number in range(5):
            await app.emit("other", id=str(number), source="/other")
        assert {await others.get() for _ in range(5)} == {"0", "1", "2", "3", "4"}
        states = [run["state"] for run in (await runtime.reader.runs(agent="limited"))["runs"]]
        assert sorted(states) == ["ready"] * 5 + ["running"] * 2
        release.set()
        await runtime.drain()
        assert most == 2
        assert await runtime.reader.counts() == {"done": 12}


async def test_in_flight_limits_the_process(new_app: NewApp):
    app = new_app(in_flight=3)
    release = asyncio.Event()
    started: asyncio.Queue[str] = asyncio.Queue()
    now, most = 0, 0

    @app.agent(on("go"))
    async def agent(run: Run) -> None:
        nonlocal now, most
        now += 1
        most = max(most, now)
        started.put_nowait(run.id)
        await release.wait()
        now -= 1

    async with working(app) as runtime:
        for number in range(10):
            await app.emit("go", id=str(number))
        for _ in range(3):
            await started.get()
        await runtime.reader.counts()  # a few turns of the event loop and of the store
        assert await runtime.reader.counts() == {"ready": 7, "running": 3}
        release.set()
        await runtime.drain()
        assert most == 3
        assert await runtime.reader.counts() == {"done": 10}


@pytest.fixture
def no_collector() -> Iterator[None]:
    """Python's garbage collector does not run: only objects without a cycle are freed."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@action(safety="idempotent")
async def book(op: Operation) -> None: ...


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize("ending", ["done", "waiting", "dead"])
async def test_an_attempt_that_ended_leaves_no_garbage_to_collect(app: App, ending: str):
    tasks: list[weakref.ref[asyncio.Task[Any]]] = []

    @app.agent(on("go"))
    async def agent(run: Run) -> str:
        task = asyncio.current_task()
        assert task is not None
        tasks.append(weakref.ref(task))
        await run.step(len, "four")
        await run.act(book)
        if ending == "waiting":
            await run.sleep("2d")
        if ending == "dead":
            raise Persistent("the printer is on fire")
        return "ended"

    async with working(app) as runtime:
        run = await go(runtime)
        assert run["state"] == ending
        assert [task() for task in tasks] == [None]


async def test_a_put_away_run_holds_no_place(new_app: NewApp):
    app = new_app(in_flight=1)

    @app.agent(on("sleep"))
    async def sleeper(run: Run) -> int:
        return await run.step(sleeps, run.attempt)

    async def sleeps(attempt: int) -> int:
        if not woken:
            raise Transient("not yet", retry_after="10s")
        return 7

    woken = False

    @app.agent(on("go"))
    async def quick(run: Run) -> None: ...

    async with working(app) as runtime:
        slow = await app.emit("sleep")
        fast = await app.emit("go")
        assert (await ended(runtime, fast))["state"] == "done"
        assert (await the_run(runtime, slow))["state"] == "waiting"
        woken = True
        await pass_time(runtime, "10s")
        run = await the_run(runtime, slow)
        assert (run["state"], run["output"]) == ("done", 7)


async def test_two_apps_live_in_one_process_on_one_store(new_app: NewApp):
    bills, ships = new_app("bills"), new_app("ships")
    seen = []

    def declare(app: App) -> None:
        @app.agent(on("go"))
        async def agent(run: Run) -> str:
            seen.append((app.name, run.event.id))
            return app.name

    declare(bills)
    declare(ships)
    async with working(bills) as first, working(ships) as second:
        one = await bills.emit("go", id="1", source="/s")
        other = await ships.emit("go", id="1", source="/s")
        assert one.runs != other.runs
        assert (await ended(first, one))["output"] == "bills"
        assert (await ended(second, other))["output"] == "ships"
    assert sorted(seen) == [("bills", "1"), ("ships", "1")]


async def test_the_same_event_a_thousand_times_from_twenty_tasks_is_one_run(app: App):
    calls = 0

    @app.agent(on("go"))
    async def agent(run: Run) -> None:
        nonlocal calls
        calls += 1

    async def client() -> list[str]:
        return [(await app.emit("go", {"n": 1}, id="one", source="/s")).status for _ in range(50)]

    async with working(app) as runtime:
        statuses = [status for some in await asyncio.gather(*(client() for _ in range(20))) for status in some]
        await runtime.drain()
        assert (statuses.count("accepted"), statuses.count("duplicate")) == (1, 999)
        assert calls == 1
        assert await runtime.reader.counts() == {"done": 1}
        event = await runtime.reader.event("one")
        assert event is not None
        assert event["duplicates"] == 999


async def test_an_idle_dispatch_costs_two_transactions(app: App, monkeypatch: pytest.MonkeyPatch):
    """One that accepts and claims, one that ends the run."""
    looked = asyncio.Event()
    look = Hearing.look

    def note(hearing: Hearing, ready: Ready) -> None:
        look(hearing, ready)
        looked.set()

    monkeypatch.setattr(Hearing, "look", note)

    @app.agent(on("go"))
    async def agent(run: Run) -> None: ...

    async with working(app) as runtime:
        if runtime.database.dialect == "postgres":
            await looked.wait()  # once it listens it looks at everything, beside what comes just then
        await runtime.drain()
        finished = asyncio.Event()
        runtime.worker.on_finished = finished.set
        before = runtime.store.journal.transactions
        receipt = await app.emit("go")
        await finished.wait()
        assert runtime.store.journal.transactions == before + 2
        assert (await the_run(runtime, receipt))["state"] == "done"


async def test_many_runs_at_once_share_transactions(app: App):
    @app.agent(on("go"))
    async def agent(run: Run) -> None:
        await run.step(nothing)

    async def nothing() -> None: ...

    async with working(app) as runtime:
        before = runtime.store.journal.transactions
        await asyncio.gather(*(app.emit("go", id=str(number)) for number in range(200)))
        await runtime.drain()
        assert await runtime.reader.counts() == {"done": 200}
        assert runtime.store.journal.transactions - before < 150  # 800 transitions
