"""Retries by class: what may work later is tried again, what cannot is dead at once, and somebody hears of it."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx2
import pytest

from support.apps import go, pass_time, the_run, working
from wakeful import App, Backoff, Denied, Persistent, RateLimited, Run, Transient, on, step
from wakeful.clock import SECOND, VirtualClock
from wakeful.runtime import Runtime


def due_in(runtime: Runtime, run: dict[str, Any]) -> float:
    """Seconds until a waiting run is due."""
    from datetime import datetime

    from wakeful.clock import from_datetime

    assert run["due_at"] is not None
    return (from_datetime(datetime.fromisoformat(run["due_at"])) - runtime.clock.now()) / SECOND


class TestTransient:
    async def test_it_is_tried_again_until_it_works(self, app: App):
        attempts = []

        @app.agent(on("go"), attempts=5)
        async def agent(run: Run) -> str:
            attempts.append(run.attempt)
            if run.attempt < 4:
                raise Transient("not yet")
            return "at last"

        async with working(app) as runtime:
            receipt = await app.emit("go")
            await runtime.drain()
            for _ in range(4):
                await pass_time(runtime)
            run = await the_run(runtime, receipt)
            alarms = (await runtime.reader.alarms())["alarms"]
        assert attempts == [1, 2, 3, 4]
        assert (run["state"], run["output"], run["attempts"]) == ("done", "at last", 4)
        assert [attempt["outcome"] for attempt in run["history"]] == ["retried"] * 3
        assert [attempt["error"]["message"] for attempt in run["history"]] == ["not yet"] * 3
        assert alarms == []

    async def test_the_wait_has_jitter_within_its_ceiling_and_a_cap(self, app: App):
        waits: dict[int, list[float]] = {}

        @app.agent(on("go"), attempts=6, backoff=Backoff(first="10s", factor=2, cap="35s"))
        async def agent(run: Run) -> None:
            raise Transient("never")

        async with working(app) as runtime:
            receipts = [await app.emit("go", id=str(number)) for number in range(20)]
            for failure in range(1, 6):
                await runtime.drain()
                for receipt in receipts:
                    run = await the_run(runtime, receipt)
                    assert (run["state"], run["attempts"]) == ("waiting", failure)
                    waits.setdefault(failure, []).append(due_in(runtime, run))
                assert isinstance(runtime.clock, VirtualClock)
                runtime.clock.move("1h")
        for failure, ceiling in zip(range(1, 6), (10, 20, 35, 35, 35), strict=True):
            assert all(0 <= wait <= ceiling for wait in waits[failure])
            assert len(set(waits[failure])) > 10, "no jitter"
            assert max(waits[failure]) - min(waits[failure]) > ceiling / 10

    async def test_retry_after_is_honoured(self, app: App):
        @app.agent(on("go"))
        async def agent(run: Run) -> str:
            if run.attempt == 1:
                raise Transient("busy", retry_after="90s")
            return "done"

        async with working(app) as runtime:
            receipt = await app.emit("go")
            await runtime.drain()
            assert due_in(runtime, await the_run(runtime, receipt)) == pytest.approx(90)
            await pass_time(runtime, "89s")
            assert (await the_run(runtime, receipt))["state"] == "waiting"
            await pass_time(runtime, "1s")
            assert (await the_run(runtime, receipt))["state"] == "done"

    async def test_when_attempts_are_used_up_it_is_a_dead_letter_with_its_history(self, app: App):
        @app.agent(on("go"), attempts=3)
        async def agent(run: Run) -> None:
            raise ConnectionError(f"attempt {run.attempt}")

        async with working(app) as runtime:
            receipt = await app.emit("go", {"payload": 1})
            await runtime.drain()
            for _ in range(3):
                await pass_time(runtime)
            run = await the_run(runtime, receipt)
        assert (run["state"], run["attempts"]) == ("dead", 3)
        assert run["reason"] == "failed 3 times, 3 allowed"
        assert run["error"]["message"] == "attempt 3"
        assert [(one["outcome"], one["error"]["message"]) for one in run["history"]] == [
            ("retried", "attempt 1"),
            ("retried", "attempt 2"),
            ("dead", "attempt 3"),
        ]
        assert run["event"]["data"] == {"payload": 1}
        assert run["outcome"]["execution"] == "failed"

    async def test_unknown_errors_count_as_transient(self, app: App):
        class Strange(Exception):
            pass

        @app.agent(on("go"), attempts=2)
        async def agent(run: Run) -> None:
            raise Strange

        async with working(app) as runtime:
            run = await go(runtime)
            assert run["state"] == "waiting"
            await pass_time(runtime)
            assert await runtime.reader.counts() == {"dead": 1}

    async def test_a_group_of_errors_fails_as_its_worst(self, app: App):
        @app.agent(on("go"))
        async def agent(run: Run) -> None:
            raise ExceptionGroup("both", [Transient("a"), Persistent("b")])

        async with working(app) as runtime:
            assert (await go(runtime))["state"] == "dead"


class TestHttp:
    """Errors of an HTTP client go by their status."""

    @staticmethod
    def raise_status(status: int, **headers: str) -> None:
        request = httpx2.Request("GET", "https://example.com/")
        httpx2.Response(status, request=request, headers=headers).raise_for_status()

    @pytest.mark.parametrize("status", [408, 500, 502, 503, 504])
    async def test_what_may_work_later_is_tried_again(self, app: App, status):
        @app.agent(on("go"), attempts=2)
        async def agent(run: Run) -> str:
            if run.attempt == 1:
                self.raise_status(status)
            return "done"

        async with working(app) as runtime:
            assert (await go(runtime))["state"] == "waiting"
            await pass_time(runtime)
            assert await runtime.reader.counts() == {"done": 1}

    @pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 422])
    async def test_what_will_not_is_dead_at_once(self, app: App, status):
        @app.agent(on("go"))
        async def agent(run: Run) -> None:
            self.raise_status(status)

        async with working(app) as runtime:
            assert (await go(runtime))["state"] == "dead"

    async def test_retry_after_of_a_server_error_is_honoured_and_counts_as_a_failure(self, app: App):
        @app.agent(on("go"), attempts=2)
        async def agent(run: Run) -> int:
            self.raise_status(503, **{"Retry-After": "120"})
            return run.attempt

        async with working(app) as runtime:
            receipt = await app.emit("go")
            await runtime.drain()
            assert due_in(runtime, await the_run(runtime, receipt)) == pytest.approx(120)
            await pass_time(runtime, "2m")
            run = await the_run(runtime, receipt)
        assert (run["state"], run["attempts"]) == ("dead", 2)

    @pytest.mark.parametrize("status", [429])
    async def test_retry_after_of_the_answer_is_honoured_and_uses_up_no_attempt(self, app: App, status):
        calls = 0

        @app.agent(on("go"), attempts=1)
        async def agent(run: Run) -> int:
            nonlocal calls
            calls += 1
            if calls < 4:
                self.raise_status(status, **{"Retry-After": "120"})
            return run.attempt

        async with working(app) as runtime:
            receipt = await app.emit("go")
            await runtime.drain()
            for _ in range(3):
                assert due_in(runtime, await the_run(runtime, receipt)) == pytest.approx(120)
                await pass_time(runtime, "2m")
            run = await the_run(runtime, receipt)
        assert (run["state"], run["output"], run["attempts"]) == ("done", 1, 1)

    @pytest.mark.parametrize("value", ["inf", "1e999", "nan", "-5", "soon", "", "1e300", "99999999999999999999"])
    async def test_a_strange_retry_after_does_no_harm(self, app: App, value):
        @app.agent(on("go"), attempts=2)
        async def agent(run: Run) -> None:
            self.raise_status(429, **{"Retry-After": value})

        async with working(app) as runtime:
            run = await go(runtime)
            assert run["state"] == "waiting"
            assert 0 <= due_in(runtime, run) <= 31 * 86400

    @pytest.mark.parametrize("value", ["inf", "1e999", "1e300"])
    async def test_neither_does_it_in_a_step(self, app: App, value):
        @step(attempts=2)
        async def call() -> None:
            self.raise_status(429, **{"Retry-After": value})

        @app.agent(on("go"))
        async def agent(run: Run) -> None:
            await run.step(call)

        async with working(app) as runtime:
            run = await go(runtime)
            assert run["state"] == "waiting"


class TestPersistent:
    async def test_it_is_dead_at_once(self, app: App):
        @app.agent(on("go"), attempts=5)
        async def agent(run: Run) -> None:
            raise Persistent("cannot be done")

        async with working(app) as runtime:
            run = await go(runtime)
        assert (run["state"], run["attempts"], run["error"]["message"]) == ("dead", 1, "cannot be done")
        assert run["error"]["failure"] == "persistent"
        assert run["reason"] == "will fail the same way again"

    async def test_it_is_alarmed_once_per_kind_of_failure(self, app: App):
        @app.agent(on("go"), alarm_after=None)
        async def agent(run: Run) -> None:
            number = run.event.data
            raise Persistent(f"order {number} has no address" if number < 5 else f"order {number} was paid twice")

        async with working(app) as runtime:
            for number in range(8):
                await app.emit("go", number)
            await runtime.drain()
            alarms = (await runtime.reader.alarms())["alarms"]
        assert sorted(alarm["count"] for alarm in alarms) == [3, 5]
        assert all(alarm["key"].startswith("dead/app/agent/") for alarm in alarms)
        assert any("has no address" in alarm["text"] for alarm in alarms)

    async def test_alarms_of_different_agents_are_apart(self, app: App):
        @app.agent(on("go"))
        async def one(run: Run) -> None:
            raise Persistent("the same")

        @app.agent(on("go"))
        async def other(run: Run) -> None:
            raise Persistent("the same")

        async with working(app) as runtime:
            await app.emit("go")
            await runtime.drain()
            assert len((await runtime.reader.alarms())["alarms"]) == 2


class TestDenied:
    async def test_it_is_a_policy_outcome_without_retry_and_without_alarm(self, app: App):
        @app.agent(on("go"), attempts=5)
        async def agent(run: Run) -> None:
            raise Denied("outside office hours")

        async with working(app) as runtime:
            run = await go(runtime)
            alarms = (await runtime.reader.alarms())["alarms"]
        assert (run["state"], run["reason"], run["attempts"]) == ("denied", "outside office hours", 1)
        assert run["outcome"]["execution"] == "denied"
        assert [attempt["outcome"] for attempt in run["history"]] == ["denied"]
        assert alarms == []

    async def test_a_step_that_is_denied_is_not_tried_again(self, app: App):
        calls = 0

        @step(attempts=5)
        async def forbidden() -> None:
            nonlocal calls
            calls += 1
            raise Denied("no")

        @app.agent(on("go"))
        async def agent(run: Run) -> None:
            await run.step(forbidden)

        async with working(app) as runtime:
            assert (await go(runtime))["state"] == "denied"
        assert calls == 1


class TestRateLimited:
    async def test_it_waits_as_told_without_using_up_attempts(self, app: App):
        calls = 0

        @app.agent(on("go"), attempts=1)
        async def agent(run: Run) -> int:
            nonlocal calls
            calls += 1
            if calls <= 5:
                raise RateLimited(retry_after="30s")
            return run.attempt

        async with working(app) as runtime:
            receipt = await app.emit("go")
            await runtime.drain()
            for _ in range(5):
                run = await the_run(runtime, receipt)
                assert (run["state"], run["attempts"], run["reason"]) == ("waiting", 0, "rate limited")
                assert due_in(runtime, run) == pytest.approx(30)
                await pass_time(runtime, "30s")
            run = await the_run(runtime, receipt)
        assert (run["state"], run["output"]) == ("done", 1)
        assert [attempt["outcome"] for attempt in run["history"]] == ["waited"] * 5

    async def test_in_a_step_it_uses_up_no_try(self, app: App):
        calls = 0

        @step(attempts=1)
        async def call() -> str:
            nonlocal calls
            calls += 1
            if calls <= 3:
                raise RateLimited(retry_after="60s")
            return "through"

        @app.agent(on("go"), attempts=1)
        async def agent(run: Run) -> str:
            return await run.step(call)

        async with working(app) as runtime:
            receipt = await app.emit("go")
            await runtime.drain()
            for _ in range(3):
                assert due_in(runtime, await the_run(runtime, receipt)) == pytest.approx(60)
                await pass_time(runtime, "60s")
            run = await the_run(runtime, receipt)
        assert (run["state"], run["output"]) == ("done", "through")
        assert run["steps"][0]["tries"] == 1


class TestSteps:
    async def test_a_short_wait_happens_in_place(self, app: App):
        calls = 0

        @step(attempts=3, backoff="1ms")
        async def flaky() -> str:
            nonlocal calls
            calls += 1
            if calls < 3:
                raise Transient("not yet")
            return "done"

        @app.agent(on("go"))
        async def agent(run: Run) -> str:
            return await run.step(flaky)

        async with working(app) as runtime:
            run = await go(runtime)
        assert (run["state"], run["output"], run["attempts"], run["history"]) == ("done", "done", 1, [])
        assert run["steps"][0]["tries"] == 3

    async def test_a_longer_wait_puts_the_run_away_and_comes_back(self, app: App):
        calls: list[str] = []

        async def first() -> None:
            calls.append("first")

        @step(attempts=3)
        async def flaky() -> str:
            calls.append("flaky")
            if calls.count("flaky") < 3:
                raise Transient("not yet", retry_after="3s")
            return "done"

        @app.agent(on("go"), attempts=1)
        async def agent(run: Run) -> str:
            await run.step(first)
            return await run.step(flaky)

        async with working(app) as runtime:
            receipt = await app.emit("go")
            for tries in (1, 2):
                await runtime.drain()
                run = await the_run(runtime, receipt)
                assert (run["state"], run["owner"], run["attempts"]) == ("waiting", None, 0)
                assert due_in(runtime, run) == pytest.approx(3)
                assert [(one["name"], one["state"], one["tries"]) for one in run["steps"]] == [
                    ("first", "done", 1),
                    ("flaky", "retrying", tries),
                ]
                await pass_time(runtime, "3s")
            run = await the_run(runtime, receipt)
        assert (run["state"], run["output"], run["attempts"]) == ("done", "done", 1)
        assert calls == ["first", "flaky", "flaky", "flaky"]
        assert [attempt["outcome"] for attempt in run["history"]] == ["waited", "waited"]
        assert run["steps"][1]["tries"] == 3

    async def test_it_is_not_put_away_while_another_branch_works(self, app: App):
        go_on = asyncio.Event()
        calls: list[str] = []

        @step(attempts=2)
        async def waits() -> str:
            calls.append("waits")
            if calls.count("waits") == 1:
                raise Transient("later", retry_after="1h")
            return "waited"

        async def works() -> str:
            calls.append("works")
            await go_on.wait()
            return "worked"

        @app.agent(on("go"))
        async def agent(run: Run) -> list[str]:
            return list(await asyncio.gather(run.step(waits), run.step(works)))

        async with working(app) as runtime:
            receipt = await app.emit("go")
            while calls != ["waits", "works"]:
                await runtime.reader.counts()
            assert (await the_run(runtime, receipt))["state"] == "running"
            go_on.set()
            await runtime.drain()
            assert (await the_run(runtime, receipt))["state"] == "waiting"
            await pass_time(runtime)
            run = await the_run(runtime, receipt)
        assert (run["state"], run["output"]) == ("done", ["waited", "worked"])
        assert sorted(calls) == ["waits", "waits", "works"]

    async def test_several_waits_wake_the_run_at_the_earliest(self, app: App):
        calls: list[int] = []

        @step(attempts=2)
        async def waits(hours: int) -> int:
            calls.append(hours)
            if calls.count(hours) == 1:
                raise Transient("later", retry_after=f"{hours}h")
            return hours

        @app.agent(on("go"))
        async def agent(run: Run) -> int:
            return sum(await asyncio.gather(run.step(waits, 3), run.step(waits, 1), run.step(waits, 2)))

        async with working(app) as runtime:
            receipt = await app.emit("go")
            await runtime.drain()
            for waited in (1, 2, 3):
                run = await the_run(runtime, receipt)
                assert (run["state"], due_in(runtime, run)) == ("waiting", pytest.approx(3600))
                await pass_time(runtime, "1h")
                assert calls.count(waited) == 2
            run = await the_run(runtime, receipt)
        assert (run["state"], run["output"]) == ("done", 6)
        assert sorted(calls) == [1, 1, 2, 2, 3, 3]

    @pytest.mark.parametrize("how", ["gather", "return_exceptions", "group", "swallow"])
    async def test_putting_away_does_not_go_through_the_users_code_as_an_error(self, app: App, how):
        seen: list[object] = []

        @step(attempts=2)
        async def waits() -> str:
            if len(seen) == 0:
                raise Transient("later", retry_after="1h")
            return "done"

        @app.agent(on("go"))
        async def agent(run: Run) -> object:
            try:
                if how == "gather":
                    return await asyncio.gather(run.step(waits))
                if how == "return_exceptions":
                    results = await asyncio.gather(run.step(waits), return_exceptions=True)
                    seen.append(results)
                    return results
                if how == "group":
                    async with asyncio.TaskGroup() as group:
                        task = group.create_task(run.step(waits))
                    return [task.result()]
                try:
                    return [await run.step(waits)]
                except asyncio.CancelledError:
                    return "swallowed"
            except Exception as error:
                seen.append(error)
                raise

        async with working(app) as runtime:
            receipt = await app.emit("go")
            await runtime.drain()
            assert (await the_run(runtime, receipt))["state"] == "waiting"
            assert seen == []
            seen.append("the second time it works")
            await pass_time(runtime)
            run = await the_run(runtime, receipt)
        assert (run["state"], run["output"]) == ("done", ["done"])

    async def test_an_error_that_leaves_the_handler_while_another_step_waits_is_a_failure_of_the_run(self, app: App):
        calls: list[str] = []

        @step(attempts=3)
        async def waits() -> str:
            calls.append("waits")
            if calls.count("waits") == 1:
                raise Transient("later", retry_after="1h")
            return "waited"

        @step(attempts=1)
        async def fails() -> str:
            calls.append("fails")
            if calls.count("fails") == 1:
                raise ConnectionError("broken")
            return "worked"

        @app.agent(on("go"))
        async def agent(run: Run) -> list[str]:
            return list(await asyncio.gather(run.step(waits), run.step(fails)))

        async with working(app) as runtime:
            receipt = await app.emit("go")
            await runtime.drain()
            run = await the_run(runtime, receipt)
            assert (run["state"], run["attempts"]) == ("waiting", 1)
            await pass_time(runtime, "1h")
            run = await the_run(runtime, receipt)
        assert (run["state"], run["output"]) == ("done", ["waited", "worked"])
        assert (calls.count("waits"), calls.count("fails")) == (2, 2)
        tries = {one["name"]: one["tries"] for one in run["steps"]}
        assert tries["waits"] == 2

    async def test_the_runs_limit_counts_failures_of_the_handler_and_not_tries_of_a_step(self, app: App):
        tries = 0

        @step(attempts=4, backoff="1ms")
        async def fails() -> None:
            nonlocal tries
            tries += 1
            raise ConnectionError("no")

        @app.agent(on("go"), attempts=2)
        async def agent(run: Run) -> None:
            await run.step(fails)

        async with working(app) as runtime:
            receipt = await app.emit("go")
            await runtime.drain()
            await pass_time(runtime)
            run = await the_run(runtime, receipt)
        assert (run["state"], run["attempts"]) == ("dead", 2)
        assert tries == 8
