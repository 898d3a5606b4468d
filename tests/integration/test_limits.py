"""Limits with workers at work: in the whole fleet, and to each its share."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter

import pytest

from support.apps import NewApp, pass_time, the_run, working
from wakeful import App, Run, on
from wakeful.execution import worker
from wakeful.intake.cloudevents import new_event
from wakeful.runtime import Runtime
from wakeful.stores.known import limits_of
from wakeful.stores.request import Actor
from wakeful.stores.verbs.pauses import ChangePause
from wakeful.why import why

PATIENCE = 60.0


class Crowd:
    """Handlers that wait until they are let go: who runs now, and how many at most did."""

    def __init__(self) -> None:
        self.now: Counter[str] = Counter()
        self.most = 0
        self.entered: asyncio.Queue[str] = asyncio.Queue()
        self.may_go = asyncio.Event()

    async def stay(self, place: str) -> None:
        self.now[place] += 1
        self.most = max(self.most, self.now.total())
        self.entered.put_nowait(place)
        await self.may_go.wait()
        self.now[place] -= 1

    async def wait_for(self, count: int) -> Counter[str]:
        async with asyncio.timeout(PATIENCE):
            return Counter([await self.entered.get() for _ in range(count)])


def crowded(new_app: NewApp, place: str, crowd: Crowd, **options: object) -> App:
    app = new_app()

    @app.agent(on("go"), name="agent", **options)
    async def agent(run: Run) -> None:
        await crowd.stay(place)

    return app


async def send(runtime: Runtime, count: int) -> None:
    """All with one commit."""
    await runtime.door.accept([new_event("go", None, source="/test", id=str(number)) for number in range(count)])


async def all_done(*runtimes: Runtime, count: int) -> None:
    async with asyncio.timeout(PATIENCE):
        while await runtimes[0].reader.counts() != {"done": count}:
            for runtime in runtimes:
                await runtime.drain()


async def know_each_other(*runtimes: Runtime) -> None:
    for runtime in runtimes:
        await runtime.reaper.run_once()


async def test_concurrency_holds_in_two_processes_together(new_app: NewApp):
    crowd = Crowd()
    async with (
        working(crowded(new_app, "first", crowd, concurrency=3)) as first,
        working(crowded(new_app, "second", crowd, concurrency=3)) as second,
    ):
        await send(first, 10)
        await crowd.wait_for(3)
        assert await second.reader.counts() == {"ready": 7, "running": 3}
        crowd.may_go.set()
        await all_done(first, second, count=10)
    assert crowd.most == 3


async def test_a_free_place_is_heard_of_in_the_other_process(new_app: NewApp):
    """The one that had it has stopped, and would not take the next itself."""
    crowd = Crowd()
    first = crowded(new_app, "first", crowd, concurrency=1)
    async with working(first) as busy, working(crowded(new_app, "second", crowd, concurrency=1)) as other:
        await other.worker.stop()
        await send(busy, 1)
        assert await crowd.wait_for(1) == {"first": 1}
        await other.worker.start()
        busy.worker.claim_nothing_more()
        await busy.door.accept([new_event("go", None, source="/test", id="next")])
        crowd.may_go.set()
        assert await crowd.wait_for(1) == {"second": 1}


async def test_a_rate_holds_and_is_told(app: App):
    @app.agent(on("go"), rate="2/10s")
    async def agent(run: Run) -> None: ...

    async with working(app) as runtime:
        receipts = [await app.emit("go", id=str(number)) for number in range(5)]
        await runtime.drain()
        assert await runtime.reader.counts() == {"done": 2, "ready": 3}
        (waiting, *_) = [one for one in receipts if (await the_run(runtime, one))["state"] == "ready"]
        told = await why(runtime.reader, waiting.runs[0])
        assert told is not None
        assert told["story"][-1] == (
            "It waits to start: the rate of agent agent, 2 in 10 s, is used up until 2026-01-01 00:00:10 UTC."
        )
        await pass_time(runtime, "9s")
        assert await runtime.reader.counts() == {"done": 2, "ready": 3}
        await pass_time(runtime, "1s")
        assert await runtime.reader.counts() == {"done": 4, "ready": 1}
        await pass_time(runtime, "10s")
        assert await runtime.reader.counts() == {"done": 5}


async def test_what_has_expired_uses_up_no_rate(app: App):
    begun: list[str] = []

    @app.agent(on("go"), rate="2/m", expires="10s")
    async def agent(run: Run) -> None:
        begun.append(run.event.id)

    async with working(app) as runtime:
        await runtime.store.do(ChangePause("app", "agent", paused=True, by=Actor("alice", "code")))
        for number in range(20):
            await app.emit("go", id=str(number))
        await pass_time(runtime, "1m")
        await app.emit("go", id="fresh")
        await runtime.store.do(ChangePause("app", "agent", paused=False, by=Actor("alice", "code")))
        await runtime.drain()
        assert await runtime.reader.counts() == {"cancelled": 20, "done": 1}
    assert begun == ["fresh"]


async def test_a_full_agent_is_told(new_app: NewApp):
    crowd = Crowd()
    app = crowded(new_app, "here", crowd, concurrency=1)
    async with working(app) as runtime:
        await app.emit("go")
        await crowd.wait_for(1)
        second = await app.emit("go")
        told = await why(runtime.reader, second.runs[0])
        assert told is not None
        assert told["story"][-1] == (
            "It waits for a free slot: agent agent has 1 of 1 runs at once, in all processes together."
        )
        crowd.may_go.set()
        await runtime.drain()


async def test_a_limit_that_is_gone_from_the_code_is_not_told_any_more(new_app: NewApp):
    limited, free = new_app(), new_app()
    limited.agent(on("go"), name="agent", concurrency=1, rate="1/h")(lambda run: None)
    free.agent(on("go"), name="agent")(lambda run: None)
    async with working(limited) as runtime:
        assert (await limits_of(runtime.reader, "app", "agent"))["rate"] == "1 in 1 h 0 m"
    async with working(free) as runtime:
        limits = await limits_of(runtime.reader, "app", "agent")
        assert (limits["concurrency"], limits["rate"]) == (None, None)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow this machine is: what was left to others is left to them."""
    monkeypatch.setattr(worker, "LEFT_TO_OTHERS_FOR", 3600.0)


class TestShares:
    @pytest.mark.usefixtures("patient")
    async def test_no_worker_idles_while_another_has_more_than_twice_its_share(self, new_app: NewApp):
        crowd = Crowd()
        async with (
            working(crowded(new_app, "first", crowd)) as first,
            working(crowded(new_app, "second", crowd)) as second,
        ):
            await know_each_other(first, second)
            await send(first, 20)
            assert await crowd.wait_for(20) == {"first": 10, "second": 10}
            crowd.may_go.set()
            await all_done(first, second, count=20)

    async def test_what_a_busy_worker_leaves_lying_is_taken(self, new_app: NewApp):
        """It counts as one that shares, and takes nothing."""
        crowd = Crowd()
        async with (
            working(crowded(new_app, "first", crowd)) as first,
            working(crowded(new_app, "second", crowd)) as second,
        ):
            await know_each_other(first, second)
            second.worker.claim_nothing_more()
            await send(first, 20)
            assert await crowd.wait_for(20) == {"first": 20}
            crowd.may_go.set()
            await first.drain()

    async def test_a_worker_that_left_has_no_share(self, new_app: NewApp):
        crowd = Crowd()
        async with working(crowded(new_app, "first", crowd)) as first:
            async with working(crowded(new_app, "second", crowd)) as second:
                await know_each_other(first, second)
                assert first.worker.peers["agent"] == 1
            await know_each_other(first)
            assert first.worker.peers == {}

    @pytest.mark.postgres
    async def test_one_that_joins_is_heard_of(self, postgres_url: str):
        """Nobody waits for the next look at the others."""
        crowd = Crowd()
        apps = [crowded(lambda: App("app", store=postgres_url), name, crowd) for name in ("first", "second")]
        async with working(apps[0]) as first:
            heard = asyncio.Event()
            noted = first.reaper._on_peers

            def note(peers: dict[str, int]) -> None:
                noted(peers)
                if peers:
                    heard.set()

            first.reaper._on_peers = note
            first.reaper._every = 3600
            first.reaper.wake()
            async with working(apps[1]):
                async with asyncio.timeout(PATIENCE):
                    await heard.wait()
            assert first.worker.peers["agent"] == 1


@pytest.mark.usefixtures("patient")
async def test_many_workers_share_what_comes_one_by_one(new_app: NewApp, dialect: str):
    """SQLite has one claim after another, so each worker takes its exact part. On PostgreSQL a run that another worker claims
    between two counts of one claim is counted twice, as due and as running: the part may then come out larger.
    """
    crowd = Crowd()
    async with contextlib.AsyncExitStack() as stack:
        runtimes = [await stack.enter_async_context(working(crowded(new_app, name, crowd))) for name in ("a", "b", "c")]
        await know_each_other(*runtimes)
        for number in range(12):
            await runtimes[0].door.accept([new_event("go", None, source="/test", id=str(number))])
        taken = await crowd.wait_for(12)
        assert set(taken) == {"a", "b", "c"}, "each takes some"
        assert max(taken.values()) <= (4 if dialect == "sqlite" else 8), "none takes more than twice its share"
        crowd.may_go.set()
        await all_done(*runtimes, count=12)
