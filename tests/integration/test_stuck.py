"""Stuck is not dead: a run whose process lives and that gets nowhere is noticed, by a thread that does not hang with it."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from structlog.testing import capture_logs

from support.apps import FOREVER, NewApp, ended, the_run, working
from support.stores import query
from wakeful import App, Operation, Run, VirtualClock, action, on
from wakeful.clock import SECOND, SystemClock
from wakeful.execution.watchdog import LONGEST_REST, Stalled, next_look, stalled
from wakeful.model import Receipt
from wakeful.runtime import Runtime
from wakeful.stores.verbs.processes import BuryProcess

PATIENCE = 60.0


class TestWhenARunIsStuck:
    def test_no_progress_for_as_long_as_it_may(self):
        assert stalled(0, 60 * SECOND, 60 * SECOND - 1) is None
        assert stalled(5 * SECOND, 60 * SECOND, 65 * SECOND) == Stalled(5 * SECOND, 60 * SECOND)

    def test_never_without_a_limit(self):
        assert stalled(0, None, 10**18) is None

    def test_it_is_looked_for_when_it_can_be(self):
        now = 100 * SECOND
        assert next_look([(95 * SECOND, 10 * SECOND), (99 * SECOND, None)], [], now) == 5
        assert next_look([], [20 * SECOND, None], now) == 20  # one that begins just now
        assert next_look([], [], now) == LONGEST_REST
        assert next_look([(0, SECOND)], [], now) > 0


class Gate:
    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.open = asyncio.Event()

    async def hang(self) -> str:
        self.reached.set()
        await self.open.wait()
        return "went on"


def hanging(app: App, gate: Gate, **options: Any) -> App:
    @app.agent(on("go"), stuck_after="1h", **options)
    async def work(run: Run) -> str:
        return await run.step(gate.hang)

    return app


async def look(runtime: Runtime) -> None:
    await asyncio.to_thread(runtime.watchdog.look)


async def begin(runtime: Runtime, gate: Gate) -> Receipt:
    receipt = await runtime.app.emit("go")
    runtime.worker.look()
    await gate.reached.wait()
    return receipt


async def alarm(runtime: Runtime) -> dict[str, Any]:
    (found,) = (await runtime.reader.alarms())["alarms"]
    return found


class TestAlarm:
    async def test_is_raised_once_and_resolves_when_the_run_goes_on(self, app: App, clock: VirtualClock):
        gate = Gate()
        async with working(hanging(app, gate)) as runtime:
            receipt = await begin(runtime, gate)
            await look(runtime)
            assert (await runtime.reader.alarms())["alarms"] == []
            clock.move("90m")
            await look(runtime)
            await look(runtime)
            found = await alarm(runtime)
            assert found["key"] == f"stuck/app/work/{receipt.runs[0]}"
            assert (found["state"], found["count"]) == ("open", 1)
            assert "no progress since 2026-01-01T00:00:00Z (1 h 30 m), in hang" in found["text"]
            assert "It is left alone" in found["text"]
            story = (await runtime.reader.why(receipt.runs[0]) or {})["story"]
            assert any("is stuck: no progress since" in sentence for sentence in story)
            gate.open.set()
            assert (await ended(runtime, receipt))["output"] == "went on"
            await look(runtime)
            assert (await alarm(runtime))["state"] == "resolved"

    @pytest.mark.parametrize("sign", ["progress", "log", "step", "now"])
    async def test_is_not_raised_for_one_that_gets_somewhere(self, app: App, clock: VirtualClock, sign: str):
        step, done = asyncio.Event(), asyncio.Event()

        async def small() -> None: ...

        @app.agent(on("go"), stuck_after="1h")
        async def work(run: Run) -> None:
            step.set()
            await done.wait()
            done.clear()
            match sign:
                case "progress":
                    run.progress()
                case "log":
                    run.log.info("still here")
                case "step":
                    await run.step(small)
                case _:
                    run.now()
            step.set()
            await done.wait()

        async with working(app) as runtime:
            await app.emit("go")
            runtime.worker.look()
            await step.wait()
            step.clear()
            clock.move("50m")
            done.set()
            await step.wait()
            clock.move("50m")
            await look(runtime)
            assert (await runtime.reader.alarms())["alarms"] == []
            done.set()
            await runtime.drain()

    async def test_left_by_a_process_that_died_is_resolved_by_the_next(self, new_app: NewApp, clock: VirtualClock):
        gate = Gate()
        dying = hanging(new_app(), gate).running(lease=FOREVER)
        one = await dying.__aenter__()
        await begin(one, gate)
        clock.move("2h")
        await look(one)
        await one.die()
        two = Gate()
        two.open.set()
        async with working(hanging(new_app(), two)) as runtime:
            await look(runtime)
            assert (await alarm(runtime))["state"] == "open"  # as far as anybody knows, it still runs
            await runtime.store.do(BuryProcess(one.membership.process, certain=True))
            await runtime.drain()
            runtime.watchdog._tidied = None
            await look(runtime)
            assert (await alarm(runtime))["state"] == "resolved"


class TestHandling:
    async def test_cancel_ends_the_run(self, app: App, clock: VirtualClock):
        gate = Gate()
        async with working(hanging(app, gate, on_stuck="cancel")) as runtime:
            receipt = await begin(runtime, gate)
            clock.move("1h")
            await look(runtime)
            run = await ended(runtime, receipt)
            assert (run["state"], run["outcome"]["execution"]) == ("cancelled", "cancelled")
            assert run["reason"] == (
                'cancelled by on_stuck="cancel": no progress for 1 h 0 m, the stuck_after of agent work: in hang, 1 h 0 m'
            )
            await look(runtime)
            assert (await alarm(runtime))["state"] == "resolved"

    async def test_cancel_undoes_what_it_did_and_cancels_what_it_called(self, app: App, clock: VirtualClock):
        gate = Gate()
        undone: list[str] = []

        async def take_back(op: Operation, what: str) -> None:
            undone.append(what)

        @action(safety="idempotent", undo=take_back)
        async def give(op: Operation, what: str) -> None:
            if what == "hangs" and not gate.reached.is_set():
                await gate.hang()

        @app.agent(on("go"), stuck_after="1h", on_stuck="cancel")
        async def work(run: Run) -> None:
            await run.act(give, "first")
            await asyncio.gather(run.call("other"), run.act(give, "hangs"))

        @app.agent()
        async def other(run: Run) -> None:
            await run.sleep("1d")

        async with working(app) as runtime:
            receipt = await begin(runtime, gate)
            clock.move("1h")
            await look(runtime)
            run = await ended(runtime, receipt)
            (called,) = run["children"]
        assert (run["state"], called["state"]) == ("cancelled", "cancelled")
        assert undone == ["hangs", "first"]
        assert {effect["state"] for effect in run["effects"]} == {"undone", "confirmed"}

    async def test_retry_counts_as_a_failure(self, app: App, clock: VirtualClock):
        gate = Gate()
        async with working(hanging(app, gate, on_stuck="retry", attempts=2)) as runtime:
            receipt = await begin(runtime, gate)
            clock.move("1h")
            await look(runtime)
            run = await ended(runtime, receipt)
            assert (run["state"], run["attempts"], run["error"]["type"]) == ("waiting", 1, "Stuck")
            gate.open.set()
            clock.move("1h")
            assert (await ended(runtime, receipt))["output"] == "went on"

    async def test_one_that_goes_on_in_the_last_moment_is_left_alone(self, app: App, clock: VirtualClock):
        gate = Gate()
        async with working(hanging(app, gate, on_stuck="cancel")) as runtime:
            receipt = await begin(runtime, gate)
            (run,) = runtime.worker.in_flight
            since = run.progress_at
            clock.move("1h")
            run.progress()
            run.interrupt_stuck(since, "in hang")
            gate.open.set()
            assert (await ended(runtime, receipt))["state"] == "done"


class TestAHandlerThatBlocksTheLoop:
    async def test_only_puts_off_what_becomes_of_others(
        self, app: App, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
    ):
        """One that hangs beside it cannot be interrupted while it blocks, and is so afterwards."""
        gate = Gate()
        async with working(hanging(app, gate, on_stuck="cancel")) as runtime:
            receipt = await begin(runtime, gate)
            clock.move("1h")
            with monkeypatch.context() as patched:
                patched.setattr("wakeful.execution.watchdog.LOOP_ANSWERS_WITHIN", 0)
                for _ in range(2):
                    looking = threading.Thread(target=runtime.watchdog.look)
                    looking.start()
                    looking.join()  # the loop waits here
            found = await alarm(runtime)
            assert (found["state"], found["count"]) == ("open", 1)
            assert "cannot be interrupted" in found["text"]
            await look(runtime)
            assert (await ended(runtime, receipt))["state"] == "cancelled"

    async def test_is_noticed_with_the_place_where_it_hangs(self, new_app: NewApp, store_url: str):
        """A program in a thread of its own, by the real clock: its loop hangs until this test has seen the alarm."""
        release = threading.Event()
        app = new_app(clock=SystemClock())

        @app.agent(on("go"), stuck_after="50ms", on_stuck="cancel")
        async def blocks(run: Run) -> None:
            release.wait(PATIENCE)

        async def work() -> None:
            async with app.running() as runtime:
                receipt = await app.emit("go")
                while (await the_run(runtime, receipt))["state"] != "done":
                    await runtime.worker.idle()

        with capture_logs() as logs:
            program = threading.Thread(target=lambda: asyncio.run(work()), daemon=True)
            program.start()
            try:
                async with asyncio.timeout(PATIENCE):
                    while not (found := await alarms(store_url)):
                        await asyncio.sleep(0.01)
            finally:
                release.set()
                await asyncio.to_thread(program.join, PATIENCE)
        ((state, text),) = found
        assert state == "open"
        assert "The event loop of its process does not answer" in text
        assert "cannot be interrupted" in text
        # By whoever noticed; whoever tells of alarms may have done so too by then.
        told = next(line for line in logs if str(line.get("key", "")).startswith("stuck/"))
        assert "release.wait(PATIENCE)" in told["stack"]
        ((state, _),) = await alarms(store_url)
        assert state == "resolved"


async def alarms(url: str) -> list[Any]:
    try:
        return [
            tuple(row) for row in await query(url, "select state, text from wakeful_alarm where key like 'stuck/%'")
        ]
    except Exception:  # the file has no tables yet
        return []
