"""Pause and resume with workers at work."""

from __future__ import annotations

import asyncio

from support.apps import NewApp, ended, pass_time, the_run, working
from wakeful import App, Run, Transient, on
from wakeful.runtime import Runtime
from wakeful.stores.request import Actor
from wakeful.stores.verbs.pauses import ChangePause
from wakeful.why import why

PATIENCE = 60.0


async def pause(runtime: Runtime, agent: str = "agent", note: str | None = None) -> None:
    await runtime.store.do(ChangePause("app", agent, paused=True, by=Actor("ada", "code"), note=note))


async def resume(runtime: Runtime, agent: str = "agent", rate: str | None = None) -> None:
    await runtime.store.do(ChangePause("app", agent, paused=False, rate=rate, by=Actor("ada", "code")))


async def story(runtime: Runtime, run: str) -> list[str]:
    told = await why(runtime.reader, run)
    assert told is not None
    lines: list[str] = told["story"]
    return lines


async def test_a_paused_agent_starts_nothing_and_goes_on_when_it_is_resumed(app: App):
    @app.agent(on("go"))
    async def agent(run: Run) -> None: ...

    @app.agent(on("go"))
    async def other(run: Run) -> None: ...

    async with working(app) as runtime:
        await pause(runtime, note="a look at the data first")
        receipt = await app.emit("go")
        await runtime.drain()
        assert await runtime.reader.counts() == {"ready": 1, "done": 1}
        (waiting,) = (await runtime.reader.runs(agent="agent"))["runs"]
        told = await story(runtime, waiting["id"])
        assert told[-1] == (
            "Agent agent has been paused since 2026-01-01 00:00:00 UTC by ada (a look at the data first): no run of it is "
            "claimed. `wakeful resume agent` resumes it."
        )
        await resume(runtime)
        await runtime.drain()
        assert await runtime.reader.counts() == {"done": 2}
        assert len(receipt.runs) == 2


async def test_what_is_in_flight_finishes_and_is_delivered(app: App):
    entered, may_go = asyncio.Event(), asyncio.Event()

    @app.agent(on("go"), deliver="log")
    async def agent(run: Run) -> str:
        entered.set()
        await may_go.wait()
        return "done"

    async with working(app) as runtime:
        receipt = await app.emit("go")
        await entered.wait()
        await pause(runtime, "")
        may_go.set()
        run = await ended(runtime, receipt)
        assert run["outcome"]["delivery"] == "delivered"
        told = await story(runtime, (await app.emit("go")).runs[0])
        assert told[-1] == (
            "All of app app has been paused since 2026-01-01 00:00:00 UTC by ada: no run of it is claimed. "
            "`wakeful resume all` resumes it."
        )


async def test_a_retry_of_a_paused_agent_waits_too(app: App):
    tries = []

    @app.agent(on("go"))
    async def agent(run: Run) -> None:
        tries.append(run.attempt)
        if len(tries) == 1:
            raise Transient("not yet", retry_after="10s")

    async with working(app) as runtime:
        receipt = await app.emit("go")
        await runtime.drain()
        await pause(runtime)
        await pass_time(runtime, "1h")
        assert (await the_run(runtime, receipt))["state"] == "waiting"
        assert tries == [1]
        await resume(runtime)
        assert (await ended(runtime, receipt))["state"] == "done"


async def test_another_process_hears_of_a_resume(new_app: NewApp):
    began = asyncio.Event()
    app, person = new_app(), new_app()

    @app.agent(on("go"))
    async def agent(run: Run) -> None:
        began.set()

    async with working(app) as runtime, person.running(worker=False) as outside:
        await pause(outside)
        await app.emit("go")
        await runtime.drain()
        assert not began.is_set()
        await resume(outside)
        async with asyncio.timeout(PATIENCE):
            await began.wait()


async def test_coming_back_at_a_rate(app: App):
    @app.agent(on("go"))
    async def agent(run: Run) -> None: ...

    async with working(app) as runtime:
        await pause(runtime)
        receipts = [await app.emit("go", id=str(number)) for number in range(5)]
        await resume(runtime, rate="2/10s")
        await runtime.drain()
        assert await runtime.reader.counts() == {"done": 2, "ready": 3}
        ready = [one for one in receipts if (await the_run(runtime, one))["state"] == "ready"]
        assert (await story(runtime, ready[0].runs[0]))[-1] == (
            "Agent agent has been resuming from a pause since 2026-01-01 00:00:00 UTC, at most 2/10s until the backlog "
            "is done. `wakeful resume agent` lifts that rate."
        )
        await pass_time(runtime, "10s")
        await pass_time(runtime, "10s")
        assert await runtime.reader.counts() == {"done": 5}
        assert await runtime.reader.pauses() == []
