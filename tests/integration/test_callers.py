"""Who called a run hears of its end, whichever way it ends; and nobody waits for a run that will not."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from support.apps import NewApp, go, pass_time, working
from wakeful import App, Persistent, Run, on
from wakeful.clock import VirtualClock
from wakeful.errors import ChildFailed
from wakeful.operations.forking import plan_fork
from wakeful.runtime import Runtime
from wakeful.stores.request import Actor
from wakeful.stores.verbs.approvals import AnswerApproval
from wakeful.stores.verbs.cancel import CancelRun
from wakeful.stores.verbs.pauses import ChangePause
from wakeful.stores.verbs.redo import RedoRun


async def seen(runtime: Runtime, identifier: str) -> dict[str, Any]:
    run = await runtime.reader.run(identifier)
    assert run is not None
    return run


def calls(app: App) -> None:
    """An agent that calls another, and says what became of it."""

    @app.agent(on("go"))
    async def caller(run: Run) -> Any:
        try:
            return await run.call("child", run.event.data)
        except ChildFailed as error:
            return str(error)


class TestAChildThatGivesWay:
    @pytest.mark.parametrize("options", [{"debounce": "1m"}, {"overlap": "replace", "key": "'one'"}])
    async def test_to_a_newer_event_tells_its_caller(self, app: App, options: dict[str, Any]):
        calls(app)

        @app.agent(**options)
        async def child(run: Run) -> Any:
            await run.sleep("1m")
            return run.event.data

        async with working(app) as runtime:
            first = await go(runtime, 1)
            second = await go(runtime, 2)
            first = await seen(runtime, first["id"])
            await pass_time(runtime, "1m")
            await pass_time(runtime, "1m")
            second = await seen(runtime, second["id"])
        assert first["state"] == "done"
        assert "took its place" in first["output"]
        assert (second["state"], second["output"]) == ("done", 2)

    async def test_before_it_was_claimed(self, app: App):
        calls(app)

        @app.agent(overlap="replace", key="'one'")
        async def child(run: Run) -> Any:
            return run.event.data

        async with working(app) as runtime:
            await runtime.store.do(ChangePause("app", "child", paused=True, by=Actor("ada", "code")))
            first = await go(runtime, 1)
            assert first["state"] == "waiting"
            await go(runtime, 2)
            first = await seen(runtime, first["id"])
        assert first["state"] == "done"
        assert "took its place" in first["output"]

    async def test_by_not_starting(self, app: App):
        calls(app)

        @app.agent(overlap="skip", key="'one'")
        async def child(run: Run) -> Any:
            await run.sleep("1h")

        async with working(app) as runtime:
            await go(runtime, 1)
            second = await go(runtime, 2)
        assert second["state"] == "done"
        assert 'overlap="skip"' in second["output"]


class TestAHeldRunThatIsDiscarded:
    async def test_tells_its_caller(self, app: App):
        calls(app)

        def never(output: Any) -> bool:
            return False

        @app.agent(checks=[never])
        async def child(run: Run) -> str:
            return "bad"

        async with working(app) as runtime:
            run = await go(runtime)
            (called,) = run["children"]
            assert (called["state"], run["state"]) == ("held", "waiting")
            await runtime.store.do(RedoRun(called["id"], discard=True, by=Actor("ada", "code"), note="not that"))
            await runtime.drain()
            run = await seen(runtime, run["id"])
        assert run["state"] == "done"
        assert "is cancelled: discarded by ada: not that" in run["output"]

    async def test_waits_for_nothing_any_more(self, new_app: NewApp):
        def declare(version: str) -> App:
            app = new_app()

            @app.agent(on("go"), on_change="hold", version=version)
            async def waits(run: Run) -> None:
                await asyncio.gather(run.wait_for("paid"), run.ask("Well?"), run.sleep("1h"))

            return app

        async with working(declare("1")) as runtime:
            run = await go(runtime)
        async with working(declare("2")) as runtime:
            await pass_time(runtime, "1h")
            assert (await seen(runtime, run["id"]))["state"] == "held"
            await runtime.store.do(RedoRun(run["id"], discard=True, by=Actor("ada", "code")))
            receipt = await runtime.app.emit("paid")
            (asked,) = (await runtime.reader.approvals())["approvals"]
        assert (receipt.status, asked["state"]) == ("unmatched", "withdrawn")


async def test_a_child_that_is_not_kept_any_more(app: App, clock: VirtualClock):
    """Its caller died before it was done, and is replayed after it was removed."""

    @app.agent(on("go"))
    async def caller(run: Run) -> Any:
        return await run.call("child", timeout="1h")

    @app.agent(retention="1d")
    async def child(run: Run) -> None:
        await run.sleep("2h")

    async with working(app) as runtime:
        run = await go(runtime)
        await pass_time(runtime, "1h")
        await pass_time(runtime, "1h")
        assert (await seen(runtime, run["id"]))["error"]["type"] == "TimedOut"
        await runtime.app.emit("go", id="newest")  # the newest run of all is always kept
        clock.move("3d")
        await runtime.housekeeper.run_once()
        await runtime.store.do(RedoRun(run["id"], by=Actor("ada", "code")))
        await runtime.drain()
        run = await seen(runtime, run["id"])
    assert (run["state"], run["error"]["type"]) == ("dead", "ChildFailed")
    assert "no longer stored" in run["error"]["message"]


class TestQuestions:
    def asks(self, app: App) -> None:
        @app.agent(on("go"))
        async def asker(run: Run) -> Any:
            return await run.ask("How much?", schema=int)

    async def answer(self, runtime: Runtime, value: str) -> None:
        (asked,) = (await runtime.reader.approvals(state="open"))["approvals"]
        await runtime.store.do(AnswerApproval(asked["id"], value, by=Actor("ada", "code")))
        await runtime.drain()

    async def test_are_asked_anew_when_a_run_is_done_again(self, app: App):
        self.asks(app)
        async with working(app) as runtime:
            run = await go(runtime)
            await self.answer(runtime, "1")
            again = await runtime.store.do(RedoRun(run["id"], again=True, by=Actor("ada", "code")))
            await runtime.drain()
            await self.answer(runtime, "2")
            assert again is not None
            after = await seen(runtime, again.run)
        assert (after["state"], after["output"]) == ("done", 2)

    async def test_are_asked_anew_by_a_fork(self, app: App):
        self.asks(app)
        async with working(app) as runtime:
            run = await go(runtime)
            await self.answer(runtime, "1")
            run = await seen(runtime, run["id"])
            forked = await runtime.store.do(plan_fork(run, "ask").request(None, by=Actor("ada", "code"), note=None))
            await runtime.drain()
            await self.answer(runtime, "2")
            assert forked is not None
            after = await seen(runtime, forked.run)
        assert (after["state"], after["output"]) == ("done", 2)

    async def test_are_not_asked_again_by_a_run_that_starts_from_the_top(self, new_app: NewApp):
        def declare(version: str) -> App:
            app = new_app()

            @app.agent(on("go"), on_change="restart", version=version)
            async def asker(run: Run) -> Any:
                answer = await run.ask("How much?", schema=int)
                await run.sleep("1h")
                return answer

            return app

        async with working(declare("1")) as runtime:
            run = await go(runtime)
            await self.answer(runtime, "1")
        async with working(declare("2")) as runtime:
            await pass_time(runtime, "1h")
            after = await seen(runtime, run["id"])
            await pass_time(runtime, "1h")
            after = await seen(runtime, run["id"])
        assert (after["state"], after["output"]) == ("done", 1)

    async def test_are_asked_again_when_a_cancelled_run_is_replayed(self, app: App):
        self.asks(app)
        async with working(app) as runtime:
            run = await go(runtime)
            await runtime.store.do(CancelRun(run["id"], by=Actor("ada", "code")))
            (asked,) = (await runtime.reader.approvals())["approvals"]
            assert asked["state"] == "withdrawn"
            await runtime.store.do(RedoRun(run["id"], by=Actor("ada", "code")))
            await runtime.drain()
            await self.answer(runtime, "3")
            after = await seen(runtime, run["id"])
        assert (after["state"], after["output"]) == ("done", 3)

    async def test_that_nobody_waits_for_any_more_is_withdrawn(self, app: App):
        @app.agent(on("go"))
        async def asker(run: Run) -> None:
            async def fails() -> None:
                await asyncio.sleep(0.05)
                raise Persistent("no")

            await asyncio.gather(run.ask("How much?"), run.step(fails))

        async with working(app) as runtime:
            run = await go(runtime)
            assert run["state"] == "dead"
            (asked,) = (await runtime.reader.approvals())["approvals"]
        assert asked["state"] == "withdrawn"


async def test_what_was_cancelled_with_its_caller_is_replayed_with_it(app: App):
    calls(app)

    @app.agent()
    async def child(run: Run) -> str:
        await run.sleep("1h")
        return await run.call("grandchild")

    @app.agent()
    async def grandchild(run: Run) -> str:
        await run.sleep("1h")
        return "slept"

    async with working(app) as runtime:
        run = await go(runtime)
        await pass_time(runtime, "1h")
        await runtime.store.do(CancelRun(run["id"], by=Actor("ada", "code")))
        await runtime.drain()
        run = await seen(runtime, run["id"])
        (called,) = run["children"]
        assert (run["state"], called["state"]) == ("cancelled", "cancelled")
        await runtime.store.do(RedoRun(run["id"], by=Actor("ada", "code")))
        await runtime.drain()
        await pass_time(runtime, "1h")
        run = await seen(runtime, run["id"])
        called = await seen(runtime, called["id"])
    assert (run["state"], run["output"], called["state"]) == ("done", "slept", "done")
    assert [one["verb"] for one in called["remedies"]] == ["cancel", "replay"]
