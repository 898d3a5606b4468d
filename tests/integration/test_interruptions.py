"""Interruptions: time limits, deadlines, stopping, and handlers that cancel or are cancelled."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable

import pytest

from support.apps import NewApp, ended, go, pass_time, the_run, working
from wakeful import App, Run, Transient, on, step
from wakeful.clock import VirtualClock


async def for_ever() -> None:
    await asyncio.Event().wait()


class TestStepTimeout:
    async def test_a_step_that_takes_too_long_is_a_transient_failure_that_names_it(self, app: App):
        calls = 0

        @step(timeout="20ms", attempts=2, backoff="1ms")
        async def slow() -> None:
            nonlocal calls
            calls += 1
            await for_ever()

        @app.agent(on("go"), attempts=1)
        async def agent(run: Run) -> None:
            await run.step(slow)

        async with working(app) as runtime:
            run = await go(runtime)
        assert (run["state"], run["error"]["type"], run["error"]["failure"]) == ("dead", "StepTimeout", "transient")
        assert run["error"]["message"] == "step slow took longer than its time limit of 20 ms"
        assert calls == 2

    async def test_it_can_be_caught_as_a_timeout_error(self, app: App):
        @step(timeout="20ms", attempts=1)
        async def slow() -> None:
            await for_ever()

        @app.agent(on("go"))
        async def agent(run: Run) -> str:
            try:
                await run.step(slow)
            except TimeoutError:
                return "went on"
            return "not reached"

        async with working(app) as runtime:
            assert (await go(runtime))["output"] == "went on"

    async def test_a_sync_step_is_left_alone_in_its_thread_and_its_result_is_thrown_away(self, app: App):
        release = threading.Event()
        finished = threading.Event()

        @step(timeout="20ms", attempts=1)
        def slow() -> str:
            release.wait(60)
            finished.set()
            return "too late"

        @app.agent(on("go"))
        async def agent(run: Run) -> str:
            try:
                return await run.step(slow)
            except TimeoutError:
                return "timed out"

        async with working(app) as runtime:
            run = await go(runtime)
            release.set()
            assert await asyncio.to_thread(finished.wait, 30)
            again = await runtime.reader.run(run["id"])
        assert run["output"] == "timed out"
        assert again is not None
        assert again["steps"][0]["state"] == "failed"

    async def test_a_timeout_of_the_functions_own_is_its_own(self, app: App):
        @step(timeout="10m", attempts=1)
        async def impatient() -> None:
            async with asyncio.timeout(0.001):
                await for_ever()

        @app.agent(on("go"), attempts=1)
        async def agent(run: Run) -> None:
            await run.step(impatient)

        async with working(app) as runtime:
            run = await go(runtime)
        assert (run["state"], run["error"]["type"]) == ("dead", "TimeoutError")

    async def test_a_timeout_around_a_step_is_the_handlers_business(self, app: App):
        async def slow() -> None:
            await for_ever()

        @app.agent(on("go"))
        async def agent(run: Run) -> str:
            try:
                async with asyncio.timeout(0.01):
                    await run.step(slow)
            except TimeoutError:
                return "went on"
            return "not reached"

        async with working(app) as runtime:
            run = await go(runtime)
        assert (run["state"], run["output"], run["steps"]) == ("done", "went on", [])


class TestDeadline:
    async def test_a_run_that_takes_too_long_is_dead(self, app: App):
        @app.agent(on("go"), deadline="30ms", attempts=5)
        async def agent(run: Run) -> None:
            await for_ever()

        async with working(app) as runtime:
            run = await go(runtime)
            alarms = (await runtime.reader.alarms())["alarms"]
        assert (run["state"], run["error"]["type"], run["reason"]) == ("dead", "DeadlineExceeded", "deadline passed")
        assert "30 ms" in run["error"]["message"]
        assert len(alarms) == 1

    async def test_it_counts_from_the_first_start_over_all_attempts(self, app: App):
        attempts = []

        @app.agent(on("go"), deadline="10m", attempts=5)
        async def agent(run: Run) -> str:
            attempts.append(run.attempt)
            if run.attempt < 3:
                raise Transient("later", retry_after="6m")
            return "done"

        async with working(app) as runtime:
            receipt = await app.emit("go")
            await runtime.drain()
            await pass_time(runtime, "6m")
            await pass_time(runtime, "6m")
            run = await the_run(runtime, receipt)
        assert (run["state"], run["error"]["type"]) == ("dead", "DeadlineExceeded")
        assert attempts == [1, 2]

    async def test_a_run_within_its_deadline_is_left_alone(self, app: App):
        @app.agent(on("go"), deadline="10m")
        async def agent(run: Run) -> str:
            return "done"

        async with working(app) as runtime:
            assert (await go(runtime))["state"] == "done"

    async def test_a_sync_handler_has_a_deadline_too(self, app: App):
        release = threading.Event()

        @app.agent(on("go"), deadline="30ms")
        def agent(run: Run) -> None:
            release.wait(60)

        async with working(app) as runtime:
            run = await go(runtime)
            release.set()
        assert (run["state"], run["error"]["type"]) == ("dead", "DeadlineExceeded")


class TestUnfinished:
    async def test_returning_while_a_call_is_in_flight_is_a_persistent_failure(self, app: App):
        started = asyncio.Event()

        async def slow() -> None:
            started.set()
            await for_ever()

        @app.agent(on("go"), attempts=5)
        async def agent(run: Run) -> str:
            task = asyncio.create_task(run.step(slow))
            await started.wait()
            return f"left {task.get_name()} behind"

        async with working(app) as runtime:
            run = await go(runtime)
        assert (run["state"], run["error"]["type"], run["attempts"]) == ("dead", "UnfinishedCalls", 1)
        assert "1 run.* call(s) were in flight" in run["error"]["message"]
        assert "run.map or asyncio.gather" in run["error"]["message"]

    @pytest.mark.parametrize("how", ["returns", "fails"])
    async def test_what_was_left_behind_is_cancelled_and_does_nothing_more(self, app: App, how):
        started = asyncio.Event()
        seen: list[str] = []

        async def slow() -> None:
            started.set()
            try:
                await for_ever()
            except asyncio.CancelledError:
                seen.append("cancelled")
                raise

        async def further() -> None:
            seen.append("further")

        async def branch(run: Run) -> None:
            try:
                await run.step(slow)
            finally:
                await run.step(further)

        @app.agent(on("go"), attempts=1)
        async def agent(run: Run) -> None:
            branches.append(asyncio.create_task(branch(run)))
            await started.wait()
            if how == "fails":
                raise Transient("something else")

        branches: list[asyncio.Task[None]] = []
        async with working(app) as runtime:
            run = await go(runtime)
            await asyncio.wait(branches)
        assert run["state"] == "dead"
        assert seen == ["cancelled"]
        assert branches[0].cancelled()

    async def test_a_branch_that_only_waits_does_not_disturb_how_the_run_ends(self, app: App):
        """Its wait is over an hour away; the handler has failed meanwhile, and that is what counts."""

        @step(attempts=3)
        async def waits() -> None:
            raise Transient("later", retry_after="1h")

        @step(attempts=1)
        async def fails() -> None:
            raise Transient("broken")

        @app.agent(on("go"), attempts=1)
        async def agent(run: Run) -> None:
            await asyncio.gather(run.step(waits), run.step(fails))

        async with working(app) as runtime:
            run = await go(runtime)
        assert (run["state"], run["error"]["message"]) == ("dead", "broken")


class TestCancellation:
    async def test_a_handler_that_awaits_something_cancelled_fails_and_is_tried_again(self, app: App):
        @app.agent(on("go"))
        async def agent(run: Run) -> str:
            if run.attempt == 1:
                task = asyncio.create_task(for_ever())
                task.cancel()
                await task
            return "done"

        async with working(app) as runtime:
            receipt = await app.emit("go")
            await runtime.drain()
            run = await the_run(runtime, receipt)
            assert (run["state"], run["attempts"]) == ("waiting", 1)
            await pass_time(runtime)
            assert (await the_run(runtime, receipt))["output"] == "done"

    async def test_a_handler_that_cancels_itself_fails_and_is_tried_again(self, app: App):
        @app.agent(on("go"))
        async def agent(run: Run) -> str:
            if run.attempt == 1:
                task = asyncio.current_task()
                assert task is not None
                task.cancel()
                await asyncio.sleep(0)
            return "done"

        async with working(app) as runtime:
            receipt = await app.emit("go")
            await runtime.drain()
            run = await the_run(runtime, receipt)
            assert (run["state"], run["attempts"]) == ("waiting", 1)
            await pass_time(runtime)
            assert (await the_run(runtime, receipt))["output"] == "done"

    async def test_a_step_that_is_cancelled_from_inside_is_tried_again(self, app: App):
        calls = 0

        @step(attempts=2, backoff="1ms")
        async def flaky() -> str:
            nonlocal calls
            calls += 1
            if calls == 1:
                raise asyncio.CancelledError
            return "done"

        @app.agent(on("go"))
        async def agent(run: Run) -> str:
            return await run.step(flaky)

        async with working(app) as runtime:
            run = await go(runtime)
        assert (run["state"], run["output"], run["steps"][0]["tries"]) == ("done", "done", 2)

    async def test_a_handler_may_cancel_a_branch_of_its_own(self, app: App):
        started = asyncio.Event()

        async def slow() -> None:
            started.set()
            await for_ever()

        async def quick() -> str:
            return "quick"

        @app.agent(on("go"))
        async def agent(run: Run) -> str:
            task = asyncio.create_task(run.step(slow))
            await started.wait()
            task.cancel()
            await asyncio.wait([task])
            return await run.step(quick)

        async with working(app) as runtime:
            run = await go(runtime)
        assert (run["state"], run["output"]) == ("done", "quick")


async def swallow(run: Run, reached: asyncio.Event) -> str:
    """Waits, is cancelled, and goes on as if nothing had happened."""
    try:
        reached.set()
        await for_ever()
    except asyncio.CancelledError:
        pass
    return "swallowed it"


async def swallow_and_call(run: Run, reached: asyncio.Event) -> str:
    await swallow(run, reached)
    await run.step(for_ever)
    return "not reached"


async def swallow_and_fail(run: Run, reached: asyncio.Event) -> str:
    await swallow(run, reached)
    raise RuntimeError("an error on the way out")


async def obey(run: Run, reached: asyncio.Event) -> str:
    reached.set()
    await for_ever()
    return "not reached"


HANDLERS: list[Callable[[Run, asyncio.Event], Awaitable[str]]] = [obey, swallow, swallow_and_call, swallow_and_fail]


class TestStop:
    @pytest.mark.parametrize("handler", HANDLERS)
    async def test_what_runs_is_given_back_without_counting_an_attempt(self, new_app: NewApp, handler):
        app, other = new_app(), new_app()
        reached = asyncio.Event()

        @app.agent(on("go"), name="agent", attempts=1)
        async def agent(run: Run) -> str:
            return await handler(run, reached)

        @other.agent(on("go"), name="agent", attempts=1)
        async def takes_over(run: Run) -> int:
            return run.attempt

        async with working(app) as runtime:
            receipt = await app.emit("go")
            await reached.wait()
            await runtime.stop(grace=0)
        async with working(other) as runtime:
            run = await ended(runtime, receipt)
        assert (run["state"], run["output"], run["attempts"], run["crashes"]) == ("done", 1, 1, 0)
        assert [attempt["outcome"] for attempt in run["history"]] == ["released"]

    async def test_what_can_finish_in_time_is_waited_for(self, new_app: NewApp):
        app = new_app()
        reached, release = asyncio.Event(), asyncio.Event()

        @app.agent(on("go"))
        async def agent(run: Run) -> str:
            reached.set()
            await release.wait()
            return "done"

        async with working(app) as runtime:
            receipt = await app.emit("go")
            await reached.wait()
            stopping = asyncio.ensure_future(runtime.stop(grace=30))
            await asyncio.sleep(0)
            release.set()
            await stopping
        async with working(new_app(), worker=False) as runtime:
            run = await the_run(runtime, receipt)
        assert (run["state"], run["output"]) == ("done", "done")

    async def test_nothing_new_is_begun_while_it_stops(self, new_app: NewApp):
        app = new_app(in_flight=1)
        reached, release = asyncio.Event(), asyncio.Event()
        begun = []

        @app.agent(on("go"))
        async def agent(run: Run) -> None:
            begun.append(run.event.id)
            reached.set()
            await release.wait()

        async with working(app) as runtime:
            await app.emit("go", id="1")
            await reached.wait()
            await app.emit("go", id="2")
            stopping = asyncio.ensure_future(runtime.stop(grace=30))
            await asyncio.sleep(0)
            release.set()
            await stopping
        async with working(new_app(), worker=False) as runtime:
            assert await runtime.reader.counts() == {"done": 1, "ready": 1}
        assert begun == ["1"]

    async def test_a_run_that_never_lets_go_is_given_back_all_the_same(
        self, new_app: NewApp, monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.setattr("wakeful.execution.worker.LET_GO_WITHIN", 0.05)
        app, other = new_app(), new_app()
        reached, release = asyncio.Event(), asyncio.Event()

        @app.agent(on("go"), name="agent")
        async def stubborn(run: Run) -> str:
            reached.set()
            while not release.is_set():
                try:
                    await release.wait()
                except asyncio.CancelledError:
                    continue
            return "from the stubborn one"

        @other.agent(on("go"), name="agent")
        async def takes_over(run: Run) -> str:
            return "taken over"

        async with working(app) as runtime:
            receipt = await app.emit("go")
            await reached.wait()
            await runtime.stop(grace=0)
        async with working(other) as runtime:
            run = await ended(runtime, receipt)
            release.set()
        assert (run["state"], run["output"]) == ("done", "taken over")

    async def test_a_second_stop_does_nothing(self, app: App):
        async with working(app) as runtime:
            await runtime.stop()
            await runtime.stop()

    async def test_a_run_that_waits_stays_put_away(self, new_app: NewApp, clock: VirtualClock):
        app, other = new_app(), new_app()
        calls = 0

        @step(attempts=2)
        async def flaky() -> str:
            nonlocal calls
            calls += 1
            if calls == 1:
                raise Transient("later", retry_after="1h")
            return "done"

        for one in (app, other):

            @one.agent(on("go"), name="agent")
            async def agent(run: Run) -> str:
                return await run.step(flaky)

        async with working(app) as runtime:
            receipt = await app.emit("go")
            await runtime.drain()
        async with working(other) as runtime:
            await runtime.drain()
            assert (await the_run(runtime, receipt))["state"] == "waiting"
            await pass_time(runtime, "1h")
            assert (await the_run(runtime, receipt))["output"] == "done"
        assert calls == 2
