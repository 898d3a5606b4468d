"""An app under a virtual clock: time is skipped, not waited for, and only when all that runs waits for it."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import Any

import pytest

from support.stores import query
from wakeful import App, Backoff, Operation, Run, Transient, VirtualClock, action, on, step
from wakeful.clock import SECOND, duration
from wakeful.errors import ConfigError, NotFound, RateLimited
from wakeful.testing import World

SLOWLY = Backoff(first="1h", cap="1h")
QUICKLY = Backoff(first="100ms", cap="1s")


@pytest.fixture
def app() -> App:
    return App("app", store="sqlite:////nowhere/to/be/found.db")


async def test_an_event_is_handled_and_looked_at(app: App, store_url: str):
    @app.agent(on("go"))
    async def double(run: Run, data: int) -> int:
        return data * 2

    async with World(app, store=store_url) as world:
        receipt = await world.emit("go", 4)
        assert (await world.run(receipt))["state"] in {"ready", "running", "done"}
        await world.drain()
        assert await world.output(receipt) == 8
        assert (await world.handle("go", 5))["output"] == 10
        assert await world.output(await started(world, "double", 6)) == 12
        assert [run["output"] for run in await world.runs()] == [8, 10, 12]
        assert await world.runs(state="dead") == []
        assert [event["type"] for event in await world.events()] == ["go", "go", "wakeful.run"]


async def started(world: World, agent: str, data: Any) -> dict[str, Any]:
    receipt = await world.start(agent, data)
    await world.drain()
    return await world.run(receipt)


async def test_the_app_is_as_before_and_its_own_store_is_not_touched(app: App):
    @app.agent(on("go"))
    async def go(run: Run) -> None: ...

    before = dict(vars(app))
    async with World(app) as world:
        assert app.runtime is not None
        await world.handle("go")
    assert vars(app) == before


async def test_back_offs_of_runs_and_steps_are_skipped(app: App, store_url: str, clock: VirtualClock):
    tries = []

    @step(attempts=3, backoff=SLOWLY)
    async def fails() -> None:
        tries.append(clock.now())
        raise Transient("not now")

    @app.agent(on("go"), attempts=3, backoff=SLOWLY)
    async def go(run: Run) -> None:
        await run.step(fails)

    begun = clock.now()
    async with World(app, store=store_url, clock=clock) as world:
        run = await world.handle("go")
    assert run["state"] == "dead"
    assert len(tries) == 9
    assert tries == sorted(tries)
    assert begun < clock.now() < begun + 9 * duration("1h")


async def test_the_wait_for_a_rate_is_skipped(app: App, store_url: str, clock: VirtualClock):
    starts = []

    @app.agent(on("go"), rate="2/10s")
    async def agent(run: Run) -> None:
        starts.append(clock.now())

    async with World(app, store=store_url, clock=clock) as world:
        began = clock.now()
        for number in range(5):
            await world.emit("go", number)
        await world.drain()
        assert [(moment - began) // SECOND for moment in sorted(starts)] == [0, 0, 10, 10, 20]


async def test_waits_in_place_are_skipped_too(app: App, store_url: str, clock: VirtualClock):
    seen = []

    @step(attempts=5, backoff=QUICKLY)
    async def fails(name: str) -> str:
        seen.append(clock.now())
        if len(seen) < 8:
            raise Transient("not now")
        return name

    @app.agent(on("go"))
    async def go(run: Run) -> list[str]:
        return list(await asyncio.gather(*(run.step(fails, name) for name in "ab")))

    async with World(app, store=store_url, clock=clock) as world:
        assert (await world.handle("go"))["output"] == ["a", "b"]
    assert clock.now() > seen[0]


async def test_time_stands_still_while_something_is_done(app: App, store_url: str):
    """A branch waits in place while another one works in a thread: the clock is moved only when that is done."""
    go_on = threading.Event()
    seen: list[int] = []

    @app.agent(on("go"), deadline="1h")
    async def go(run: Run) -> None:
        @step(attempts=2, backoff=Backoff(first="2s", cap="2s"))
        async def waits() -> None:
            seen.append(world.clock.now())
            if len(seen) < 2:
                asyncio.get_running_loop().call_later(0.05, go_on.set)
                raise Transient("not now")

        def works() -> None:
            go_on.wait(60)
            seen.append(-world.clock.now())

        await asyncio.gather(run.step(waits), run.step(works))

    async with World(app, store=store_url) as world:
        begun = world.clock.now()
        assert (await world.handle("go"))["state"] == "done"
    assert seen[0] == begun
    assert -begun in seen, "the clock was moved while a step was at work"


async def test_a_deadline_passes_in_virtual_time(app: App, store_url: str):
    async def stuck() -> None: ...

    @app.agent(on("go"), deadline="10m")
    async def go(run: Run) -> None:
        await run.step(stuck)

    async with World(app, store=store_url) as world:
        begun = world.clock.now()
        with world.fake(stuck, takes="1h") as fake:
            run = await world.handle("go")
        assert (run["state"], run["reason"]) == ("dead", "deadline passed")
        assert world.clock.now() == begun + duration("10m")
        assert len(fake.calls) == 1


async def test_a_step_that_takes_longer_than_its_limit_runs_into_it(app: App, store_url: str):
    @step(timeout="30s", attempts=2)
    async def slow() -> None: ...

    @action(safety="idempotent", timeout="20s", attempts=2)
    async def act(op: Operation) -> None: ...

    @app.agent(on("go"), attempts=1)
    async def go(run: Run) -> None:
        with contextlib.suppress(TimeoutError):
            await run.step(slow)
        await run.act(act)

    async with World(app, store=store_url) as world:
        world.fake(slow, takes="2m")
        world.fake(act, takes="2m")
        run = await world.handle("go")
    assert run["steps"][0]["error"]["message"] == "step slow took longer than its time limit of 30 s"
    assert run["state"] == "held"
    assert "took longer than its time limit of 20 s" in run["reason"]


async def test_the_clock_can_be_left_alone_or_moved_only_so_far(app: App, store_url: str):
    tries = []

    @app.agent(on("go"), attempts=2)
    async def go(run: Run) -> None:
        tries.append(world.clock.now())
        raise RateLimited("later", retry_after="2h")

    async with World(app, store=store_url) as world:
        begun = world.clock.now()
        receipt = await world.emit("go")
        await world.drain(skip=False)
        assert (len(tries), world.clock.now()) == (1, begun)
        await world.drain(at_most="1h")
        assert (len(tries), world.clock.now()) == (1, begun)
        await world.skip("1h")
        assert (len(tries), world.clock.now()) == (1, begun + duration("1h"))
        await world.skip("1h")
        assert len(tries) == 2
        with pytest.raises(AssertionError, match=r"is waiting .*due at"):
            await world.output(receipt)
        await world.drain(at_most="1d")
    assert len(tries) == 14


async def test_what_never_ends_is_told(app: App, monkeypatch: pytest.MonkeyPatch):
    @app.agent(on("go"))
    async def go(run: Run) -> None:
        raise RateLimited("later", retry_after="1s")

    monkeypatch.setattr("wakeful.testing.world.MOST_SKIPS", 20)
    async with World(app) as world:
        with pytest.raises(AssertionError, match="not at rest after the clock was moved 20 times"):
            await world.handle("go")


async def test_effects_deeds_and_alarms_are_seen(app: App, store_url: str):
    @action(safety="idempotent")
    async def post(op: Operation, number: int) -> str:
        return f"posted {number}"

    @action
    async def risky(op: Operation) -> None:
        raise Transient("gone")

    @app.agent(on("go"))
    async def go(run: Run) -> None:
        await run.act(post, 7)
        await run.act(risky)

    async with World(app, store=store_url) as world:
        run = await world.handle("go")
        assert run["state"] == "held"
        assert [(one["action"], one["state"]) for one in await world.effects()] == [
            ("post", "confirmed"),
            ("risky", "held"),
        ]
        assert [one["result"] for one in await world.effects(action="post")] == ["posted 7"]
        assert [str(one) for one in world.deeds.all()] == ["post(7)"]
        assert await world.deliveries() == []
        (alarm,) = await world.alarms()
        assert "held for a person" in alarm["text"]
        with pytest.raises(AssertionError, match=r"is held \(risky: .*not done"):
            await world.output(run)


@pytest.mark.parametrize(("verb", "ends"), [("confirm", "done"), ("repeat", "done"), ("abandon", "dead")])
async def test_a_person_is_played_by_the_test(app: App, store_url: str, verb: str, ends: str):
    @action
    async def risky(op: Operation) -> str:
        raise AssertionError

    @app.agent(on("go"), attempts=1)
    async def go(run: Run) -> str:
        return await run.act(risky)

    async with World(app, store=store_url) as world:
        world.fake(risky, answers=[Transient("gone"), "done"])
        run = await world.handle("go")
        (held,) = await world.effects(state="held")
        await getattr(world, verb)(*((held, "done") if verb == "confirm" else (held,)))
        await world.drain()
        run = await world.run(run)
        assert run["state"] == ends
        assert run["output"] == ("done" if ends == "done" else None)
        with pytest.raises(NotFound, match="and not held"):
            await getattr(world, verb)(held["id"])
        with pytest.raises(NotFound, match="does not exist"):
            await getattr(world, verb)("nothing")


async def test_others_may_read_the_store_meanwhile(app: App, store_url: str):
    counted = []

    @app.agent(on("go"))
    async def go(run: Run) -> None:
        await run.step(look)

    async def look() -> None:
        counted.append(await asyncio.to_thread(asyncio.run, query(store_url, "select state from wakeful_run")))

    async with World(app, store=store_url) as world:
        await world.handle("go")
    assert counted == [[("running",)]]


async def test_a_crash_in_the_middle_is_taken_over(app: App, store_url: str):
    reached = asyncio.Event()
    calls = []

    @app.agent(on("go"))
    async def go(run: Run) -> str:
        @step
        async def first() -> str:
            calls.append("first")
            return "first"

        @step
        async def second() -> str:
            calls.append("second")
            if calls.count("second") == 1:
                reached.set()
                await asyncio.get_running_loop().create_future()
            return "second"

        return f"{await run.step(first)} {await run.step(second)}"

    async with World(app, store=store_url) as world:
        receipt = await world.emit("go")
        await reached.wait()
        await world.crash()
        await world.drain()
        run = await world.run(receipt)
        assert (run["output"], run["crashes"]) == ("first second", 1)
    assert calls == ["first", "second", "second"]


async def test_a_store_is_left_behind_for_the_next_world(app: App, store_url: str):
    @app.agent(on("go"), backoff=SLOWLY)
    async def go(run: Run) -> int:
        if run.attempt == 1:
            raise Transient("not now")
        return run.attempt

    clock = VirtualClock()
    async with World(app, store=store_url, clock=clock) as world:
        receipt = await world.emit("go")
        await world.drain(skip=False)
    async with World(app, store=store_url, clock=clock) as world:
        await world.drain()
        assert await world.output(receipt) == 2
        assert world.clock.now() > 0 * SECOND


async def test_mistakes_are_told(app: App):
    @app.agent(on("go"))
    async def one(run: Run) -> None: ...

    @app.agent(on("go"))
    async def two(run: Run) -> None: ...

    async with World(app) as world:
        receipt = await world.emit("go")
        with pytest.raises(NotFound, match="must have one run, but has 2"):
            await world.run(receipt)
        with pytest.raises(NotFound, match=r"\(unmatched\) must have one run, but has 0: none"):
            await world.run(await world.emit("nothing"))
        with pytest.raises(NotFound, match="no run abcdef"):
            await world.run("abcdef")
        with pytest.raises(ConfigError, match="already running"):
            await World(app).__aenter__()
    with pytest.raises(RuntimeError, match="this world has ended"):
        await world.drain()


async def test_nothing_is_left_of_a_world_that_has_ended(app: App, store_url: str):
    stuck = asyncio.Event()

    @app.agent(on("go"), deadline="1h")
    async def go(run: Run) -> None:
        @step
        async def hangs() -> None:
            stuck.set()
            await asyncio.get_running_loop().create_future()

        await run.step(hangs)

    tasks = asyncio.all_tasks()
    threads = {thread for thread in threading.enumerate() if thread.name.startswith("wakeful-")}
    async with World(app, store=store_url) as world:
        await world.emit("go")
        await stuck.wait()
        stuck.clear()
        await world.crash()
        await stuck.wait()
    assert asyncio.all_tasks() == tasks
    assert {thread for thread in threading.enumerate() if thread.name.startswith("wakeful-")} == threads


async def test_a_state_that_there_is_not_is_refused():
    async with World(App("app")) as world:
        with pytest.raises(ConfigError, match=r'effects\(state="helt"\).*Did you mean "held"'):
            await world.effects(state="helt")
        with pytest.raises(ConfigError, match="unknown state"):
            await world.runs(state="zz")
        with pytest.raises(ConfigError, match='Did you mean "dead"'):
            await world.deliveries(state="ded")


class TestPeople:
    async def test_a_held_output_is_returned_and_released(self):
        app = App("app")

        @app.agent(on("go"), checks=[lambda text: "!" not in text], deliver="log")
        async def write(run: Run) -> str:
            return f"HELP! {[one.text for one in run.remarks]}"

        async with World(app) as world:
            receipt = await world.emit("go")
            await world.drain()
            assert (await world.run(receipt))["state"] == "held"
            assert world.messages() == []
            await world.give_back(receipt, "calmer")
            await world.drain()
            assert (await world.run(receipt))["output"] == "HELP! ['calmer']"
            await world.release(receipt)
            await world.drain()
            assert [one.body for one in world.messages()] == ["HELP! ['calmer']"]
            for decide in (world.release(receipt), world.give_back(receipt, "late")):
                with pytest.raises(NotFound, match="is done: only a held output can be re"):
                    await decide
            with pytest.raises(NotFound, match=r"run nothing does not exist: world.runs\(state='held'\)"):
                await world.release("nothing")

    async def test_approvals_are_listed_and_answered(self):
        app = App("app")

        @app.agent(on("go"))
        async def ask(run: Run) -> Any:
            return await run.ask(f"Go {run.event.data}?", schema=bool, timeout="4h")

        async with World(app) as world:
            receipt = await world.emit("go", 1)
            await world.drain(skip=False)
            (question,) = await world.approvals()
            with pytest.raises(ValueError, match="true or false is expected"):
                await world.answer(question, "perhaps")
            with pytest.raises(NotFound, match=r"0 open approvals match. Open: 'Go 1\?'"):
                await world.answer("Stop?", True)
            await world.answer(question, False)
            await world.drain()
            assert await world.output(receipt) is False
            assert await world.approvals() == []
            assert [one["answer"] for one in await world.questions(state=None)] == [False]

    async def test_what_is_asked_later_is_answered_before_time_passes(self):
        app = App("app")

        @app.agent(on("go"))
        async def ask(run: Run) -> Any:
            first = run.now()
            answer = await run.ask("Go?", schema=bool, timeout="4h")
            return [answer, run.now() == first]

        async with World(app) as world:
            world.when_asked("Go", True)
            assert (await world.handle("go"))["output"] == [True, True]
