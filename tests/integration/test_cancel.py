"""Cancelling, on both stores: a run stops at its next step, what it did is undone, the latest first, and nothing else leaves."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from support.apps import go, pass_time, the_run, working
from wakeful import App, NotSent, Operation, Persistent, Run, action, on
from wakeful.errors import ConfigError
from wakeful.model import Decision
from wakeful.policy.decide import ALLOWED, DEFAULT_RULES, EffectFacts
from wakeful.runtime import Runtime
from wakeful.stores.request import Actor
from wakeful.stores.verbs.cancel import Cancelled, CancelRun
from wakeful.stores.verbs.redo import RedoRun
from wakeful.stores.verbs.settling import SettleEffect


class Shop:
    """The outside world: what was done and undone there, in order."""

    def __init__(self) -> None:
        self.log: list[tuple[str, Any]] = []
        self.refuses: list[Exception] = []
        self.seen: list[str] = []  # operation ids

    def note(self, operation: Operation, *what: Any) -> str:
        self.seen.append(operation.id)
        if self.refuses:
            raise self.refuses.pop(0)
        self.log.append((operation.action, *what))
        return f"{operation.action} {what}"

    @property
    def deeds(self) -> list[str]:
        return [name for name, *_ in self.log]


async def cancel(runtime: Runtime, run: Any, note: str | None = None) -> Cancelled:
    identifier = run if isinstance(run, str) else run["id"]
    cancelled = await runtime.store.do(CancelRun(identifier, by=Actor("ada", "code"), note=note))
    assert cancelled is not None
    await runtime.drain()
    return cancelled


class Order:
    """An agent that reserves, charges and tells, and then does what the test wants."""

    def __init__(self, app: App, shop: Shop, **options: Any) -> None:
        self.reached = asyncio.Event()
        self.go_on = asyncio.Event()
        self.ends: list[str] = []

        async def release(op: Operation, what: str) -> None:
            shop.note(op, what)

        def refund(op: Operation, what: str, amount: int, *, result: str) -> str:
            return shop.note(op, what, amount, result)

        @action(undo=release, safety="idempotent", backoff="10ms", **options)
        async def reserve(op: Operation, what: str) -> str:
            return shop.note(op, what)

        @action(undo=refund, backoff="10ms", **options)
        async def charge(op: Operation, what: str, amount: int) -> str:
            return shop.note(op, what, amount)

        @action
        async def tell(op: Operation, what: str) -> str:
            return shop.note(op, what)

        async def wait() -> str:
            self.reached.set()
            await self.go_on.wait()
            return "waited"

        async def more() -> str:
            self.ends.append("more")
            return "more"

        @app.agent(on("go"), name="order", attempts=1)
        async def order(run: Run) -> str:
            await run.act(reserve, "book")
            await run.act(charge, "book", 7)
            await run.act(tell, "book")
            await run.step(wait)
            return await run.step(more)


async def under_way(runtime: Runtime, order: Order) -> str:
    receipt = await runtime.app.emit("go")
    await order.reached.wait()
    (run,) = receipt.runs
    return run


class TestARunningOne:
    async def test_stops_at_its_next_step_and_is_undone_the_latest_first(self, app: App):
        shop = Shop()
        order = Order(app, shop)
        async with working(app) as runtime:
            run = await under_way(runtime, order)
            asked = await runtime.store.do(CancelRun(run, by=Actor("ada", "code"), note="wrong book"))
            assert asked == Cancelled(run, "running", "running")
            order.go_on.set()
            await runtime.drain()
            shown = await runtime.reader.run(run)
            story = await runtime.reader.why(run)
        assert shown is not None
        assert story is not None
        assert order.ends == []
        assert shop.deeds == ["reserve", "charge", "tell", "undo charge", "undo reserve"]
        assert shop.log[3] == ("undo charge", "book", 7, "charge ('book', 7)")
        assert shown["state"] == "cancelled"
        assert shown["reason"] == (
            "cancelled by ada: wrong book; undone: charge, reserve; not undone (no undo declared): tell"
        )
        assert [step["name"] for step in shown["steps"]] == ["wait"]
        assert shown["steps"][0]["result"] == "waited"
        assert [(one["action"], one["state"]) for one in shown["effects"]] == [
            ("reserve", "undone"),
            ("charge", "undone"),
            ("tell", "confirmed"),
            ("undo charge", "confirmed"),
            ("undo reserve", "confirmed"),
        ]
        assert [one["outcome"] for one in shown["history"]] == ["cancelled"]
        assert shown["outcome"]["execution"] == "cancelled"
        assert [(one["verb"], one["operator"], one["note"]) for one in shown["remedies"]] == [
            ("cancel", "ada", "wrong book")
        ]
        assert any("ada cancelled it" in line for line in story["story"])

    async def test_whose_wait_is_cut_short(self, app: App):
        calls = []

        @action(attempts=5, backoff="1h")
        async def post(op: Operation) -> None:
            calls.append(op.id)
            raise NotSent("not now")

        @app.agent(on("go"), name="agent")
        async def agent(run: Run) -> None:
            await run.act(post)

        async with working(app) as runtime:
            run = await go(runtime)
            assert run["state"] == "waiting"
            assert (await cancel(runtime, run)).now == "cancelled"
            shown = await runtime.reader.run(run["id"])
        assert shown is not None
        assert (shown["state"], shown["effects"][0]["state"], len(calls)) == ("cancelled", "failed", 1)

    async def test_ends_though_its_handler_catches_everything(self, app: App):
        started = asyncio.Event()
        go_on = asyncio.Event()
        swallowed: list[str] = []

        async def first() -> None:
            started.set()
            await go_on.wait()

        async def second() -> None:
            swallowed.append("second")

        @app.agent(on("go"), name="agent")
        async def agent(run: Run) -> str:
            await run.step(first)
            try:
                await run.step(second)
            except BaseException as error:
                swallowed.append(type(error).__name__)
            return "done after all"

        async with working(app) as runtime:
            receipt = await app.emit("go")
            await started.wait()
            await runtime.store.do(CancelRun(receipt.runs[0], by=Actor("ada", "code")))
            await asyncio.sleep(0)
            go_on.set()
            run = await the_run_after(runtime, receipt)
        assert (run["state"], run["output"]) == ("cancelled", None)
        assert "second" not in swallowed

    async def test_lets_branches_end_what_they_have_under_way(self, app: App):
        begun = asyncio.Event()
        go_on = asyncio.Event()
        ended: list[str] = []

        async def slow() -> str:
            begun.set()
            await go_on.wait()
            ended.append("slow")
            return "slow"

        async def quick(number: int) -> int:
            ended.append(f"quick {number}")
            return number

        async def branch(run: Run) -> None:
            for number in range(1000):
                await run.step(quick, number)
                await asyncio.sleep(0)

        @app.agent(on("go"), name="agent")
        async def agent(run: Run) -> None:
            await asyncio.gather(run.step(slow), branch(run))

        async with working(app) as runtime:
            receipt = await app.emit("go")
            await begun.wait()
            await runtime.store.do(CancelRun(receipt.runs[0], by=Actor("ada", "code")))
            (run,) = runtime.worker.in_flight
            while run.to_stop is None:
                await asyncio.sleep(0)
            for _ in range(100):
                await asyncio.sleep(0)
            before = len(ended)
            go_on.set()
            shown = await the_run_after(runtime, receipt)
        assert shown["state"] == "cancelled"
        assert ended[before:] == ["slow"]
        assert "slow" in [step["name"] for step in shown["steps"]]


async def the_run_after(runtime: Runtime, receipt: Any) -> dict[str, Any]:
    await runtime.drain()
    return await the_run(runtime, receipt)


class TestOneThatDoesNotRun:
    async def test_and_did_nothing_is_over_at_once(self, app: App):
        @app.agent(on("go"), name="agent")
        async def agent(run: Run) -> None:
            pass

        async with app.running(worker=False) as runtime:
            receipt = await app.emit("go")
            cancelled = await runtime.store.do(CancelRun(receipt.runs[0], by=Actor("ada", "code"), note="not wanted"))
            run = await the_run(runtime, receipt)
            again = await runtime.store.do(CancelRun(receipt.runs[0], by=Actor("bob", "code")))
        assert cancelled == Cancelled(run["id"], "ready", "cancelled")
        assert (run["state"], run["reason"]) == ("cancelled", "cancelled by ada: not wanted")
        assert run["finished_at"] is not None
        assert again is not None
        assert again.refused == "is cancelled: only a run that has not ended can be cancelled"

    async def test_and_is_not_there_is_nothing(self, app: App):
        async with app.running(worker=False) as runtime:
            assert await runtime.store.do(CancelRun("nothing", by=Actor("ada", "code"))) is None

    async def test_but_is_held_for_what_it_would_put_out_drops_that(self, app: App):
        shop = Shop()

        @action
        async def tell(op: Operation) -> None:
            shop.note(op)

        @app.agent(on("go"), name="agent", checks=[lambda _: "no"], deliver="log")
        async def agent(run: Run) -> str:
            run.stage(tell)
            return "output"

        async with working(app) as runtime:
            run = await go(runtime)
            assert run["state"] == "held"
            assert (await cancel(runtime, run)).now == "cancelled"
            shown = await runtime.reader.run(run["id"])
            alarms = await runtime.reader.alarms(state="open")
        assert shown is not None
        assert (shown["state"], shown["outcome"]["commit"]) == ("cancelled", "none")
        assert [one["state"] for one in shown["deliveries"]] == ["discarded"]
        assert [one["state"] for one in shown["effects"]] == ["abandoned"]
        assert shop.deeds == []
        assert alarms["alarms"] == []

    async def test_but_waits_for_an_approval_gives_the_effect_up_and_may_ask_again(self, app: App):
        shop = Shop()
        asked: list[str] = []

        def rule(facts: Any) -> Decision | None:
            if isinstance(facts, EffectFacts):
                asked.append(facts.action)
                return Decision("ask", "careful", "ask first") if len(asked) == 1 else ALLOWED
            return None

        app.rules = (rule, *DEFAULT_RULES)

        @action
        async def tell(op: Operation) -> str:
            return shop.note(op)

        @app.agent(on("go"), name="agent")
        async def agent(run: Run) -> None:
            await run.act(tell)

        async with working(app) as runtime:
            run = await go(runtime)
            assert run["state"] == "waiting"
            assert (await cancel(runtime, run)).now == "cancelled"
            await runtime.store.do(RedoRun(run["id"], by=Actor("ada", "code")))
            await runtime.drain()
            shown = await runtime.reader.run(run["id"])
        assert shown is not None
        assert shown["state"] == "done"
        assert [one["state"] for one in shown["effects"]] == ["abandoned", "confirmed"]
        assert asked == ["tell", "tell"]


class TestUndoing:
    async def test_is_repeated_as_its_safety_says(self, app: App):
        shop = Shop()
        order = Order(app, shop)
        async with working(app) as runtime:
            run = await under_way(runtime, order)
            shop.refuses = [NotSent("not now"), NotSent("not now")]
            await runtime.store.do(CancelRun(run, by=Actor("ada", "code")))
            order.go_on.set()
            await runtime.drain()
            shown = await runtime.reader.run(run)
        assert shown is not None
        assert shown["state"] == "cancelled"
        assert shop.deeds[3:] == ["undo charge", "undo reserve"]
        tries = {one["action"]: one["tries"] for one in shown["effects"]}
        assert tries["undo charge"] == 3
        assert len(set(shop.seen)) == 5

    @pytest.mark.parametrize("answer", ["confirmed", "retrying", "abandoned"])
    @pytest.mark.parametrize("error", [Persistent("no refunds"), TimeoutError("who knows")])
    async def test_what_cannot_be_undone_is_held_until_a_person_says_something(
        self, app: App, answer: Any, error: Exception
    ):
        shop = Shop()
        order = Order(app, shop)
        async with working(app) as runtime:
            run = await under_way(runtime, order)
            shop.refuses = [error]
            await runtime.store.do(CancelRun(run, by=Actor("ada", "code")))
            order.go_on.set()
            await runtime.drain()
            held = await runtime.reader.run(run)
            story = await runtime.reader.why(run)
            assert held is not None
            assert story is not None
            assert held["state"] == "held"
            (undo,) = [one for one in held["effects"] if one["state"] == "held"]
            assert undo["action"] == "undo charge"
            assert shop.deeds == ["reserve", "charge", "tell"]
            assert any(f"wakeful effects confirm {undo['id']}" in line for line in story["story"])
            await runtime.store.do(SettleEffect(undo["id"], answer, by=Actor("bob", "code")))
            await runtime.drain()
            shown = await runtime.reader.run(run)
        assert shown is not None
        assert shown["state"] == "cancelled"
        states = {one["action"]: one["state"] for one in shown["effects"]}
        if answer == "abandoned":
            assert states["charge"] == "confirmed"
            assert "undone: reserve; not undone: charge (decided by bob)" in shown["reason"]
        else:
            assert states["charge"] == "undone"
            assert "undone: charge, reserve" in shown["reason"]
        assert shop.deeds[3:] == (["undo charge"] if answer == "retrying" else []) + ["undo reserve"]

    async def test_policy_is_asked_before_anything_is_undone(self, app: App):
        def rule(facts: Any) -> Decision | None:
            if isinstance(facts, EffectFacts) and facts.action == "undo charge":
                return Decision("deny", "no refunds", "the shop is closed")
            return None

        app.rules = (rule, *DEFAULT_RULES)
        shop = Shop()
        order = Order(app, shop)
        async with working(app) as runtime:
            run = await under_way(runtime, order)
            await runtime.store.do(CancelRun(run, by=Actor("ada", "code")))
            order.go_on.set()
            await runtime.drain()
            shown = await runtime.reader.run(run)
        assert shown is not None
        assert shown["state"] == "held"
        assert "the shop is closed" in shown["reason"]
        assert shop.deeds == ["reserve", "charge", "tell"]

    async def test_waits_for_its_time_when_told_to(self, app: App):
        shop = Shop()
        order = Order(app, shop, attempts=3)
        async with working(app) as runtime:
            run = await under_way(runtime, order)
            shop.refuses = [NotSent("come back", retry_after="1h")]
            await runtime.store.do(CancelRun(run, by=Actor("ada", "code")))
            order.go_on.set()
            await runtime.drain()
            waiting = await runtime.reader.run(run)
            story = await runtime.reader.why(run)
            assert waiting is not None
            assert story is not None
            assert waiting["state"] == "waiting"
            assert "Undoing its effects continues at" in story["story"][-1]
            await pass_time(runtime, "2h")
            shown = await runtime.reader.run(run)
        assert shown is not None
        assert shown["state"] == "cancelled"
        assert shop.deeds[3:] == ["undo charge", "undo reserve"]

    async def test_an_action_may_undo_another_by_its_own_rules(self, app: App):
        shop = Shop()
        calls: list[int] = []

        @action(safety="idempotent", attempts=7, backoff="10ms")
        async def refund(op: Operation, amount: int) -> None:
            calls.append(amount)
            if len(calls) < 3:
                raise TimeoutError
            shop.note(op, amount)

        @action(undo=refund)
        async def charge(op: Operation, amount: int) -> None:
            shop.note(op, amount)

        done = asyncio.Event()

        async def wait() -> None:
            done.set()
            await asyncio.sleep(0)
            raise Persistent("no")

        @app.agent(on("go"), name="agent", attempts=1)
        async def agent(run: Run) -> None:
            await run.act(charge, 3)
            await run.act(tell)

        @action
        async def tell(op: Operation) -> None:
            raise TimeoutError

        async with working(app) as runtime:
            run = await go(runtime)
            assert run["state"] == "held"
            assert (await cancel(runtime, run)).now == "ready"
            held = await runtime.reader.run(run["id"])
            assert held is not None
            assert held["state"] == "held"  # nobody knows yet whether tell was done
            (unknown,) = [one for one in held["effects"] if one["state"] == "held"]
            await runtime.store.do(SettleEffect(unknown["id"], "retrying", by=Actor("bob", "code")))
            await runtime.drain()
            shown = await runtime.reader.run(run["id"])
        assert shown is not None
        assert shown["state"] == "cancelled"
        assert shop.deeds == ["charge", "undo charge"]
        assert calls == [3, 3, 3]
        assert [one["state"] for one in shown["effects"] if one["action"] == "tell"] == ["failed"]

    async def test_a_run_that_is_done_again_after_it_was_undone_does_it_all_anew(self, app: App):
        shop = Shop()
        order = Order(app, shop)
        async with working(app) as runtime:
            run = await under_way(runtime, order)
            await runtime.store.do(CancelRun(run, by=Actor("ada", "code")))
            order.go_on.set()
            await runtime.drain()
            await runtime.store.do(RedoRun(run, by=Actor("ada", "code")))
            await runtime.drain()
            shown = await runtime.reader.run(run)
        assert shown is not None
        assert (shown["state"], shown["output"]) == ("done", "more")
        assert shop.deeds == ["reserve", "charge", "tell", "undo charge", "undo reserve", "reserve", "charge"]
        assert len(set(shop.seen)) == 7
        assert shown["cancel"] is None

    async def test_what_another_run_of_the_family_did_well_stays_done(self, app: App):
        shop = Shop()
        order = Order(app, shop)
        order.go_on.set()
        async with working(app) as runtime:
            run = await go(runtime)
            assert run["state"] == "done"
            order.go_on.clear()
            order.reached.clear()
            redone = await runtime.store.do(RedoRun(run["id"], again=True, by=Actor("ada", "code")))
            assert redone is not None
            await order.reached.wait()
            await runtime.store.do(CancelRun(redone.run, by=Actor("ada", "code")))
            order.go_on.set()
            await runtime.drain()
            shown = await runtime.reader.run(redone.run)
        assert shown is not None
        assert (shown["state"], shown["reason"]) == ("cancelled", "cancelled by ada")
        assert shop.deeds == ["reserve", "charge", "tell"]

    async def test_what_was_staged_and_released_is_undone_too_and_the_rest_is_not_begun(self, app: App):
        shop = Shop()
        begun, go_on = asyncio.Event(), asyncio.Event()

        def unbook(op: Operation, number: int) -> None:
            shop.note(op, number)

        @action(undo=unbook)
        async def book(op: Operation, number: int) -> None:
            begun.set()
            await go_on.wait()
            shop.note(op, number)

        @app.agent(on("go"), name="agent")
        async def agent(run: Run) -> str:
            run.stage(book, 1)
            run.stage(book, 2)
            return "output"

        async with working(app) as runtime:
            receipt = await app.emit("go")
            await begun.wait()
            await runtime.store.do(CancelRun(receipt.runs[0], by=Actor("ada", "code")))
            go_on.set()
            run = await the_run_after(runtime, receipt)
        assert (run["state"], run["output"], run["outcome"]["commit"]) == ("cancelled", "output", "committed")
        assert shop.log == [("book", 1), ("undo book", 1)]
        assert [one["state"] for one in run["effects"]] == ["undone", "abandoned", "confirmed"]


class TestDeclaring:
    def test_an_undo_must_take_what_its_action_takes(self):
        async def refund(op: Operation) -> None: ...

        with pytest.raises(ConfigError, match=r"undo=refund .* does not take what charge takes"):

            @action(undo=refund)
            async def charge(op: Operation, amount: int) -> None: ...

    def test_an_undo_needs_an_operation(self):
        async def refund(amount: int) -> None: ...

        with pytest.raises(ConfigError, match="an action's first parameter is its Operation"):

            @action(undo=refund)
            async def charge(op: Operation, amount: int) -> None: ...

    def test_an_argument_named_result_is_an_argument(self):
        def refund(op: Operation, result: str) -> None: ...

        @action(undo=refund)
        async def charge(op: Operation, result: str) -> None: ...

        assert charge.options.undo is refund
