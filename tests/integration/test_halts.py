"""Halts and an app at work: calls under way finish, nothing more begins, and everything goes on once the halt is lifted."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from support.apps import NewApp, go, pass_time, the_run, working
from wakeful import App, NotSent, Operation, Run, action, on
from wakeful.channels import Channel, Message
from wakeful.execution.attempt import current_attempt
from wakeful.resources import halts
from wakeful.resources.desk import Desk
from wakeful.runtime import Runtime
from wakeful.stores.request import Actor
from wakeful.stores.verbs.cancel import CancelRun
from wakeful.stores.verbs.halts import ChangeHalt, HaltChanged
from wakeful.testing import World, crash_everywhere

ADA = Actor("ada", "code")
WHY = "halted by ada: wrong prices"
Do = Callable[[], Awaitable[Any]]


async def halt(runtime: Runtime, agent: str = "", action: str = "") -> HaltChanged:
    return await runtime.store.do(ChangeHalt("app", agent, action, by=ADA, note="wrong prices"))


async def lift(runtime: Runtime, agent: str = "", action: str = "") -> None:
    await runtime.store.do(ChangeHalt("app", agent, action, halted=False, by=ADA))
    await runtime.drain()


class Shop:
    """An agent that pays, and what happened outside. `meanwhile` happens during the first call."""

    def __init__(self, app: App, *answers: Any, **options: Any) -> None:
        self.paid: list[int] = []
        self.undone: list[int] = []
        self.looked: list[int] = []
        self.handled = 0
        self.meanwhile: Do | None = None
        left = list(answers)

        async def find(_: Operation, number: int) -> None:
            self.looked.append(number)

        async def take_back(_: Operation, number: int) -> None:
            self.undone.append(number)

        if options.get("safety") == "reconcile":
            options["find"] = find

        @action(**{"safety": "idempotent", "backoff": "10ms", "undo": take_back, **options})
        async def pay(_: Operation, number: int) -> str:
            self.paid.append(number)
            if self.meanwhile is not None:
                todo, self.meanwhile = self.meanwhile, None
                await todo()
            answer = left.pop(0) if left else "paid"
            if isinstance(answer, BaseException):
                raise answer
            return f"{answer} {number}"

        self.pay = pay
        self.app = app

        @app.agent(on("go"), name="agent", attempts=1)
        async def agent(run: Run) -> str:
            self.handled += 1
            return await run.act(pay, 7)


@pytest.fixture
def shop(app: App) -> Shop:
    return Shop(app)


PLACES = [("", ""), ("agent", ""), ("", "pay")]


class TestEffects:
    async def test_a_run_that_reaches_a_halted_action_is_parked_and_goes_on_with_the_lift(self, app: App, shop: Shop):
        async with working(app) as runtime:
            await halt(runtime, action="pay")
            run = await go(runtime)
            assert (run["state"], run["reason"], run["attempts"], run["effects"]) == ("parked", WHY, 0, [])
            told = await runtime.reader.why(run["id"])
            assert told is not None
            story = " ".join(told["story"])
            assert "Action pay has been halted since" in story
            assert "wakeful halt --action pay --lift" in story
            assert shop.paid == []
            await lift(runtime, action="pay")
            run = await runtime.reader.run(run["id"])
        assert (run["state"], run["attempts"], shop.paid) == ("done", 1, [7])
        assert [one["tries"] for one in run["effects"]] == [1]

    @pytest.mark.parametrize("place", [("", ""), ("twice", ""), ("", "pay")])
    async def test_a_call_under_way_finishes_and_the_next_does_not_begin(self, app: App, place: tuple[str, str]):
        shop = Shop(app)

        @app.agent(on("twice"), name="twice", attempts=1)
        async def twice(run: Run) -> list[str]:
            return [await run.act(shop.pay, number) for number in (1, 2)]

        told: list[HaltChanged] = []
        async with working(app) as runtime:

            async def meanwhile() -> None:
                told.append(await halt(runtime, *place))

            shop.meanwhile = meanwhile
            receipt = await app.emit("twice")
            await runtime.drain()
            run = await the_run(runtime, receipt)
            assert (run["state"], run["reason"], shop.paid) == ("parked", WHY, [1])
            assert [one["state"] for one in run["effects"]] == ["confirmed"]
            assert [(one.run, one.action) for one in told[0].calls] == [(run["id"], "pay")]
            await lift(runtime, *place)
            run = await the_run(runtime, receipt)
        assert (run["state"], run["output"], shop.paid) == ("done", ["paid 1", "paid 2"], [1, 2])

    @pytest.mark.parametrize("place", PLACES)
    async def test_a_retry_that_a_halt_stops(self, app: App, place: tuple[str, str]):
        """In place, within a moment: the handler waits for it, and the halt comes before the second call."""
        shop = Shop(app, NotSent("busy"))
        async with working(app) as runtime:

            async def meanwhile() -> None:
                await halt(runtime, *place)

            shop.meanwhile = meanwhile
            run = await go(runtime)
            assert (run["state"], run["reason"], run["attempts"], shop.paid) == ("parked", WHY, 0, [7])
            (effect,) = run["effects"]
            assert (effect["state"], effect["tries"], effect["reason"]) == ("retrying", 1, f"not begun: {WHY}")
            await lift(runtime, *place)
            run = await runtime.reader.run(run["id"])
        assert (run["state"], shop.paid, run["effects"][0]["tries"]) == ("done", [7, 7], 2)

    async def test_a_later_retry_of_a_halted_agent_is_not_even_claimed(self, app: App):
        shop = Shop(app, NotSent("busy", retry_after="1h"))
        async with working(app) as runtime:
            run = await go(runtime)
            await halt(runtime, "agent")
            await pass_time(runtime, "2h")
            run = await runtime.reader.run(run["id"])
            assert (run["state"], shop.paid) == ("waiting", [7])
            await lift(runtime, "agent")
            run = await runtime.reader.run(run["id"])
        assert (run["state"], shop.paid) == ("done", [7, 7])

    async def test_find_may_look_and_the_call_after_it_is_stopped(self, app: App):
        shop = Shop(app, TimeoutError("no answer"), safety="reconcile")
        async with working(app) as runtime:
            run = await go(runtime)
            assert run["state"] == "waiting"
            await halt(runtime, action="pay")
            await pass_time(runtime)
            run = await runtime.reader.run(run["id"])
            assert (run["state"], shop.paid, shop.looked) == ("parked", [7], [7])
            assert run["effects"][0]["state"] == "retrying"
            await lift(runtime, action="pay")
            run = await runtime.reader.run(run["id"])
        assert (run["state"], shop.paid) == ("done", [7, 7])

    async def test_what_may_have_been_done_stays_unknown(self, app: App):
        shop = Shop(app, TimeoutError("no answer"))
        async with working(app) as runtime:

            async def meanwhile() -> None:
                await halt(runtime, "agent")

            shop.meanwhile = meanwhile
            run = await go(runtime)
            assert (run["state"], run["effects"][0]["state"]) == ("parked", "unknown")
            await lift(runtime, "agent")
            run = await runtime.reader.run(run["id"])
        assert (run["state"], shop.paid) == ("done", [7, 7])

    async def test_a_branch_that_calls_finishes_before_the_run_is_parked(self, app: App):
        shop = Shop(app)
        ended: list[str] = []
        begun = asyncio.Event()

        @action(safety="idempotent")
        async def mail(_: Operation) -> str:
            begun.set()
            attempt = current_attempt()
            while attempt.interrupted is None:  # until the other branch was refused
                await asyncio.sleep(0)
            ended.append("mail")
            return "sent"

        @app.agent(on("both"), name="both", attempts=1)
        async def both(run: Run) -> list[str]:
            async def then_pay() -> str:
                await begun.wait()
                return await run.act(shop.pay, 1)

            return list(await asyncio.gather(run.act(mail), then_pay()))

        async with working(app) as runtime:
            await halt(runtime, action="pay")
            receipt = await app.emit("both")
            await runtime.drain()
            run = await the_run(runtime, receipt)
            assert (run["state"], ended) == ("parked", ["mail"])
            assert [(one["action"], one["state"]) for one in run["effects"]] == [("mail", "confirmed")]
            await lift(runtime, action="pay")
            run = await the_run(runtime, receipt)
        assert (run["output"], ended) == (["sent", "paid 1"], ["mail"])

    async def test_a_staged_one_waits_and_the_handler_does_not_run_again(self, app: App, shop: Shop):
        handled: list[str] = []

        @app.agent(on("stage"), name="stager", attempts=1)
        async def stager(run: Run) -> str:
            handled.append(run.id)
            run.stage(shop.pay, 7)
            return "staged"

        async with working(app) as runtime:
            await halt(runtime, action="pay")
            receipt = await app.emit("stage")
            await runtime.drain()
            run = await the_run(runtime, receipt)
            assert (run["state"], run["reason"], shop.paid) == ("parked", WHY, [])
            assert [one["state"] for one in run["effects"]] == ["staged"]
            await lift(runtime, action="pay")
            run = await the_run(runtime, receipt)
        assert (run["state"], shop.paid, len(handled)) == ("done", [7], 1)

    async def test_one_with_a_business_key(self, app: App):
        shop = Shop(app, once="arguments.number")
        async with working(app) as runtime:
            await halt(runtime, action="pay")
            run = await go(runtime)
            assert (run["state"], shop.paid) == ("parked", [])
            await lift(runtime, action="pay")
            run = await runtime.reader.run(run["id"])
        assert (run["state"], shop.paid) == ("done", [7])


class TestUndo:
    async def test_a_cancel_by_a_person_undoes_although_the_agent_is_halted(self, app: App):
        shop = Shop(app)

        @app.agent(on("wait"), name="waiter", attempts=1)
        async def waiter(run: Run) -> None:
            await run.act(shop.pay, 1)
            await run.sleep("1d")

        async with working(app) as runtime:
            receipt = await app.emit("wait")
            await runtime.drain()
            await halt(runtime)
            await halt(runtime, action="pay")
            await runtime.store.do(CancelRun(receipt.runs[0], by=ADA))
            await runtime.drain()
            run = await the_run(runtime, receipt)
        assert (run["state"], shop.undone) == ("cancelled", [1])

    @pytest.mark.parametrize("place", [("", ""), ("failing", ""), ("", "pay")])
    async def test_an_undo_after_a_failure_waits(self, app: App, place: tuple[str, str]):
        shop = Shop(app)

        @app.agent(on("fail"), name="failing", attempts=1, on_failure="undo")
        async def failing(run: Run) -> None:
            await run.act(shop.pay, 1)
            raise ValueError

        async with working(app) as runtime:

            async def meanwhile() -> None:
                await halt(runtime, *place)

            shop.meanwhile = meanwhile
            receipt = await app.emit("fail")
            await runtime.drain()
            run = await the_run(runtime, receipt)
            assert (run["state"], run["reason"], shop.undone) == ("parked", WHY, [])
            await lift(runtime, *place)
            run = await the_run(runtime, receipt)
        assert (run["state"], shop.undone) == ("dead", [1])

    async def test_with_cancel_the_runs_of_calls_under_way_stop_and_undo(self, app: App, shop: Shop):
        answers: list[halts.HaltMade] = []
        async with working(app) as runtime:

            async def meanwhile() -> None:
                desk = Desk(runtime.reader, ADA, runtime.store, "wrong prices")
                answers.append(await halts.make(desk, "app", "agent", "", cancel=True))

            shop.meanwhile = meanwhile
            run = await go(runtime)
        (answer,) = answers
        assert (answer["was_halted"], answer["cancelled"]) == (False, [run["id"]])
        assert [(one["run"], one["action"]) for one in answer["calls"]] == [(run["id"], "pay")]
        assert (run["state"], shop.paid, shop.undone) == ("cancelled", [7], [7])
        assert run["reason"].startswith("cancelled by ada: wrong prices")


class Post(Channel):
    """Keeps what it gets. `meanwhile` happens during the first delivery."""

    repeats = "known"
    most = 10

    def __init__(self) -> None:
        self.tried: list[list[Any]] = []
        self.meanwhile: Do | None = None
        self.failing: list[Exception] = []

    async def deliver(self, messages: Sequence[Message]) -> None:
        self.tried.append([message.body for message in messages])
        if self.meanwhile is not None:
            todo, self.meanwhile = self.meanwhile, None
            await todo()
        if self.failing:
            raise self.failing.pop(0)


@pytest.fixture
def post() -> Post:
    return Post()


@pytest.fixture
def sender(new_app: NewApp, post: Post) -> App:
    app = new_app(channels={"ops": post})

    @app.agent(on("go"), name="agent", attempts=1)
    async def agent(run: Run) -> None:
        for number in range(3):
            run.send("ops", number)

    @app.agent(on("other"), name="other", attempts=1)
    async def other(run: Run) -> None:
        run.send("ops", "other")

    return app


class TestDeliveries:
    async def test_stay_until_the_lift(self, sender: App, post: Post):
        post.failing = [ConnectionError("down")] * 2
        async with working(sender) as runtime:
            run = await go(runtime)
            assert post.tried == [[0, 1, 2], [0]]
            await halt(runtime, "agent")
            await pass_time(runtime, "1h")
            await sender.emit("other")
            await runtime.drain()
            assert post.tried[2:] == [["other"]]
            run = await runtime.reader.run(run["id"])
            assert [one["state"] for one in run["deliveries"]] == ["pending"] * 3
            await lift(runtime, "agent")
            assert post.tried[3:] == [[0, 1, 2]]

    async def test_what_is_halted_while_a_batch_fails_is_not_tried_singly(self, sender: App, post: Post):
        post.failing = [ConnectionError("down")]
        async with working(sender) as runtime:

            async def meanwhile() -> None:
                assert (await halt(runtime, "agent")).deliveries == {"ops": 3}

            post.meanwhile = meanwhile
            await go(runtime)
            assert post.tried == [[0, 1, 2]]
            await lift(runtime, "agent")
            assert post.tried[1:] == [[0, 1, 2]]

    async def test_alarms_get_out(self, sender: App, post: Post):
        async with working(sender) as runtime:
            await halt(runtime)
            runtime.alarm("broken/app", "it broke")
            await runtime.drain()
            (alarm,) = (await runtime.reader.alarms(state="open"))["alarms"]
            assert alarm["told"] == 1


async def test_a_crash_anywhere_neither_calls_what_is_halted_nor_loses_it(store_url: str):
    """The run is parked, and another run lifts the halt: dead at every commit of both."""
    app = App("app")
    calls: list[int] = []
    worlds: list[World] = []

    @action(safety="idempotent")
    async def pay(_: Operation, number: int) -> int:
        calls.append(number)
        return number

    @app.agent(on("go"), name="agent")
    async def agent(run: Run) -> int:
        return await run.act(pay, 7)

    async def arrange(world: World) -> None:
        worlds.append(world)
        await halt(world.runtime, action="pay")

    async def observe() -> Any:
        world = worlds[-1]
        before, waiting = list(calls), [run["state"] for run in await world.runs()]
        await world.runtime.store.do(ChangeHalt("app", "", "pay", halted=False, by=ADA))
        await world.drain()
        return before, waiting, list(calls), [run["state"] for run in await world.runs()]

    report = await crash_everywhere(app, "go", store=store_url, observe=observe, reset=calls.clear, arrange=arrange)
    report.check()
    assert report.baseline.outside == ([], ["parked"], [7], ["done"])
    assert any("LeaveRun" in one.boundary.requests for one in report.crashes)


async def test_a_crash_anywhere_around_a_lift_loses_no_run(store_url: str):
    app = App("app")
    calls: set[str] = set()  # by operation: the call is repeated after a crash, under the same id
    worlds: list[World] = []

    @action(safety="idempotent")
    async def pay(op: Operation, number: int) -> int:
        calls.add(op.id)
        return number

    @app.agent(on("go"), name="agent")
    async def agent(run: Run) -> int:
        await run.emit("lift")
        return await run.act(pay, 7)

    @app.agent(on("lift"), name="lifter")
    async def lifter(run: Run) -> None:
        async def lift() -> None:
            await worlds[-1].runtime.store.do(ChangeHalt("app", "", "pay", halted=False, by=ADA))

        await run.sleep("1h")  # the other run is parked by then
        await run.step(lift)

    async def arrange(world: World) -> None:
        worlds.append(world)
        await halt(world.runtime, action="pay")

    async def observe() -> Any:
        return len(calls), sorted(run["state"] for run in await worlds[-1].runs())

    report = await crash_everywhere(app, "go", store=store_url, observe=observe, reset=calls.clear, arrange=arrange)
    report.check()
    assert report.baseline.outside == (1, ["done", "done"])
    assert any("ChangeHalt" in one.boundary.requests for one in report.crashes)
