"""Handlers: what they are given, what fits them, and what they return."""

from __future__ import annotations

import asyncio
import sys
import threading
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field
from structlog.testing import capture_logs

from support.apps import ended, go, pass_time, the_run, working
from wakeful import App, Run, Transient, on


class Order(BaseModel):
    number: int
    item: str = Field(min_length=1)


class TestData:
    async def test_the_second_parameter_is_validated_from_the_events_data(self, app: App):
        @app.agent(on("go"))
        async def agent(run: Run, order: Order) -> str:
            assert isinstance(order, Order)
            return f"{order.number} {order.item}"

        async with working(app) as runtime:
            assert (await go(runtime, {"number": "7", "item": "bread"}))["output"] == "7 bread"

    async def test_data_that_does_not_fit_is_a_dead_letter_and_the_handler_never_starts(self, app: App):
        started = []

        @app.agent(on("go"), attempts=5)
        async def agent(run: Run, order: Order) -> None:
            started.append(order)

        async with working(app) as runtime:
            run = await go(runtime, {"number": "many", "item": ""})
            alarms = (await runtime.reader.alarms())["alarms"]
        assert started == []
        assert (run["state"], run["error"]["type"], run["attempts"]) == ("dead", "InvalidData", 1)
        assert "number: Input should be a valid integer" in run["error"]["message"]
        assert "item: String should have at least 1 character" in run["error"]["message"]
        assert run["event"]["data"] == {"number": "many", "item": ""}
        assert len(alarms) == 1

    async def test_no_data_does_not_fit_a_model(self, app: App):
        @app.agent(on("go"))
        async def agent(run: Run, order: Order) -> None: ...

        async with working(app) as runtime:
            assert (await go(runtime))["state"] == "dead"

    async def test_other_types_are_validated_too(self, app: App):
        seen: list[Any] = []

        @app.agent(on("numbers"))
        async def numbers(run: Run, data: list[Annotated[int, Field(ge=0)]]) -> None:
            seen.append(data)

        @app.agent(on("maybe"))
        async def maybe(run: Run, data: Order | None) -> None:
            seen.append(data)

        @app.agent(on("plain"))
        async def plain(run: Run, data) -> None:
            seen.append(data)

        async with working(app) as runtime:
            for kind, data in (("numbers", ["1", 2]), ("maybe", None), ("plain", {"a": [1]})):
                assert (await ended(runtime, await app.emit(kind, data)))["state"] == "done"
            assert (await ended(runtime, await app.emit("numbers", [-1])))["state"] == "dead"
        assert seen == [[1, 2], None, {"a": [1]}]

    async def test_a_handler_without_it_uses_the_event(self, app: App):
        @app.agent(on("go"))
        async def agent(run: Run) -> list[Any]:
            return [run.event.data, run.event.subject, run.event.type, run.event.source]

        async with working(app) as runtime:
            run = await go(runtime, {"a": 1}, subject="s", source="/here")
        assert run["output"] == [{"a": 1}, "s", "go", "/here"]


class TestSync:
    async def test_a_sync_handler_runs_in_a_thread(self, app: App):
        @app.agent(on("go"))
        def agent(run: Run, data: int) -> list[Any]:
            return [threading.current_thread() is threading.main_thread(), data + 1]

        async with working(app) as runtime:
            assert (await go(runtime, 41))["output"] == [False, 42]

    async def test_its_errors_are_sorted_as_others_are(self, app: App):
        @app.agent(on("go"))
        def agent(run: Run) -> str:
            if run.attempt == 1:
                raise Transient("once more")
            return "done"

        async with working(app) as runtime:
            receipt = await app.emit("go")
            await runtime.drain()
            await pass_time(runtime)
            assert (await the_run(runtime, receipt))["output"] == "done"

    async def test_sync_handlers_run_side_by_side(self, app: App):
        together = threading.Barrier(3)

        @app.agent(on("go"))
        def agent(run: Run) -> None:
            together.wait(60)

        async with working(app) as runtime:
            for number in range(3):
                await app.emit("go", id=str(number))
            await runtime.drain()
            assert await runtime.reader.counts() == {"done": 3}


class TestOutput:
    @pytest.mark.parametrize("value", [None, 0, "", [], {"a": [1, {"b": None}]}, 1.5, True])
    async def test_what_a_handler_returns_is_the_output(self, app: App, value):
        @app.agent(on("go"))
        async def agent(run: Run) -> Any:
            return value

        async with working(app) as runtime:
            run = await go(runtime)
        assert (run["state"], run["output"]) == ("done", value)
        assert run["outcome"]["execution"] == "ok"

    async def test_a_model_is_stored_as_json(self, app: App):
        @app.agent(on("go"))
        async def agent(run: Run) -> Order:
            return Order(number=1, item="bread")

        async with working(app) as runtime:
            assert (await go(runtime))["output"] == {"number": 1, "item": "bread"}


class TestMisbehaviour:
    async def test_a_handler_that_exits_ends_its_attempt_and_not_the_worker(self, app: App):
        @app.agent(on("go"), attempts=1)
        async def exits(run: Run) -> None:
            sys.exit(3)

        @app.agent(on("other"))
        async def good(run: Run) -> str:
            return "still here"

        async with working(app) as runtime:
            assert (await go(runtime))["state"] == "dead"
            assert (await ended(runtime, await app.emit("other")))["output"] == "still here"

    async def test_an_error_that_cannot_be_put_into_words_is_stored(self, app: App):
        class Unspeakable(Exception):
            def __str__(self) -> str:
                raise RuntimeError("no words")

        @app.agent(on("go"), attempts=1)
        async def agent(run: Run) -> None:
            raise Unspeakable

        async with working(app) as runtime:
            run = await go(runtime)
        assert (run["state"], run["error"]["type"]) == ("dead", "Unspeakable")

    @pytest.mark.parametrize("words", ["nul \0", "half \udc80"])
    async def test_a_denial_may_say_anything(self, app: App, words):
        from wakeful import Denied

        @app.agent(on("go"))
        async def agent(run: Run) -> None:
            raise Denied(words)

        async with working(app) as runtime:
            assert (await go(runtime))["state"] == "denied"

    async def test_the_runs_of_a_failing_agent_do_not_disturb_another(self, app: App):
        @app.agent(on("bad"), attempts=1, pause_after=None)
        async def bad(run: Run) -> None:
            raise RuntimeError("always")

        @app.agent(on("good"))
        async def good(run: Run) -> None:
            await asyncio.sleep(0)

        async with working(app) as runtime:
            for number in range(30):
                await app.emit("bad", id=str(number), source="/bad")
                await app.emit("good", id=str(number), source="/good")
            await runtime.drain()
            assert await runtime.reader.counts() == {"dead": 30, "done": 30}

    async def test_log_lines_of_the_engine_carry_the_run(self, app: App):
        @app.agent(on("go"), attempts=1)
        async def agent(run: Run) -> None:
            raise RuntimeError("broken")

        import structlog

        with capture_logs(processors=[structlog.contextvars.merge_contextvars]) as logs:
            async with working(app) as runtime:
                run = await go(runtime)
        (line,) = [line for line in logs if line["event"].startswith("dead letter")]
        assert (line["run"], line["agent"]) == (run["id"], "agent")
