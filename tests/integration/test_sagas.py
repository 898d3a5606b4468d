"""on_failure="undo": a run that fails for good undoes what it did, the latest first, and then is a dead letter; and dead letters
can be cancelled, which undoes what they did.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from support.apps import NewApp, ended, go, pass_time, working
from support.stores import query
from wakeful import App, ConfigError, Operation, Persistent, Run, action, on
from wakeful.operations.held import settle
from wakeful.operations.redo import Choice, plan_redo
from wakeful.runtime import Runtime
from wakeful.stores.request import Actor
from wakeful.stores.verbs.cancel import Cancelled, CancelRun
from wakeful.stores.verbs.fork import ForkRun
from wakeful.stores.verbs.redo import RedoRun


class Shop:
    """Reserves, charges, and then fails; and all that it was asked to do."""

    def __init__(self, app: App, *, safety: Any = "idempotent", staged: bool = False, **options: Any) -> None:
        self.calls: list[str] = []
        self.ids: list[str] = []
        self.broken = True
        self.unfit_undo: Exception | None = None

        async def release(op: Operation, what: str) -> None:
            self.calls.append(f"release {what}")

        async def refund(op: Operation, what: str, *, result: str) -> None:
            if self.unfit_undo is not None:
                raise self.unfit_undo
            self.calls.append(f"refund {result}")

        @action(safety="idempotent", undo=release)
        async def reserve(op: Operation, what: str) -> str:
            self.calls.append(f"reserve {what}")
            self.ids.append(op.id)
            return "seat 7"

        @action(safety=safety, undo=refund)
        async def charge(op: Operation, what: str) -> str:
            self.calls.append(f"charge {what}")
            return f"payment for {what}"

        @action(safety="idempotent")
        async def mail(op: Operation) -> None:
            self.calls.append("mail")

        @action(safety="idempotent")
        async def print_it(op: Operation) -> None:
            if self.broken:
                raise Persistent("no paper")
            self.calls.append("print")

        @app.agent(on("go"), name="order", **options)
        async def order(run: Run) -> str:
            await run.act(reserve, "book")
            await run.act(charge, "book")
            await run.act(mail)
            if staged:
                run.stage(print_it)
            elif self.broken:
                raise Persistent("out of stock")
            return "sold"


async def seen(runtime: Runtime, run: dict[str, Any]) -> dict[str, Any]:
    found = await runtime.reader.run(run["id"])
    assert found is not None
    return found


async def story_of(runtime: Runtime, run: dict[str, Any]) -> str:
    told = await runtime.reader.why(run["id"])
    assert told is not None
    return " ".join(told["story"])


DONE = ["reserve book", "charge book", "mail"]
UNDONE = ["refund payment for book", "release book"]


async def test_what_it_did_is_undone_the_latest_first_and_then_it_is_a_dead_letter(app: App):
    shop = Shop(app, on_failure="undo")
    async with working(app) as runtime:
        run = await go(runtime)
        story = await story_of(runtime, run)
        (alarm,) = (await runtime.reader.alarms())["alarms"]
        (group,) = (await plan_redo(runtime.reader, Choice())).letters
    assert shop.calls == DONE + UNDONE
    assert (run["state"], run["error"]["message"], run["attempts"]) == ("dead", "out of stock", 1)
    assert run["reason"] == "will fail the same way again; undone: charge, reserve; not undone (no undo declared): mail"
    states = {one["action"]: one["state"] for one in run["effects"]}
    assert states == {
        "reserve": "undone",
        "charge": "undone",
        "mail": "confirmed",
        "undo reserve": "confirmed",
        "undo charge": "confirmed",
    }
    assert run["cancel"] is None
    assert "2 effects of the run were undone: " in story
    assert "dead letter" in alarm["text"]
    assert "undone: charge, reserve" in alarm["text"]
    assert (group["id"], group["confirmed"]) == (run["id"], {"mail": 1})
    assert [one["outcome"] for one in run["history"]] == ["dead"]


async def test_without_it_nothing_is_undone(app: App):
    shop = Shop(app)
    async with working(app) as runtime:
        run = await go(runtime)
    assert (run["state"], shop.calls) == ("dead", DONE)


async def test_one_that_did_nothing_outside_dies_at_once(app: App):
    @app.agent(on("go"), on_failure="undo")
    async def order(run: Run) -> None:
        raise Persistent("out of stock")

    async with working(app) as runtime:
        run = await go(runtime)
    assert (run["state"], run["reason"]) == ("dead", "will fail the same way again")


async def test_one_that_goes_well_undoes_nothing(app: App):
    shop = Shop(app, on_failure="undo")
    shop.broken = False
    async with working(app) as runtime:
        run = await go(runtime)
    assert (run["state"], shop.calls) == ("done", DONE)


async def test_a_replay_does_what_was_undone_anew_and_finds_the_rest(app: App):
    shop = Shop(app, on_failure="undo")
    async with working(app) as runtime:
        run = await go(runtime)
        shop.calls.clear()
        shop.broken = False
        await runtime.store.do(RedoRun(run["id"], by=Actor("ada", "code")))
        await runtime.drain()
        run = await seen(runtime, run)
    assert (run["state"], run["output"]) == ("done", "sold")
    assert shop.calls == ["reserve book", "charge book"]
    assert len(set(shop.ids)) == 2, "under a new operation id"


async def test_one_that_fails_again_after_its_replay_undoes_that_too(app: App):
    shop = Shop(app, on_failure="undo")
    async with working(app) as runtime:
        run = await go(runtime)
        shop.calls.clear()
        await runtime.store.do(RedoRun(run["id"], by=Actor("ada", "code")))
        await runtime.drain()
        run = await seen(runtime, run)
    assert run["state"] == "dead"
    assert shop.calls == ["reserve book", "charge book", *UNDONE]


async def test_what_was_staged_and_refused_undoes_the_rest_and_a_replay_starts_from_the_top(app: App):
    shop = Shop(app, on_failure="undo", staged=True)
    async with working(app) as runtime:
        run = await go(runtime)
        assert (run["state"], shop.calls) == ("dead", DONE + UNDONE)
        shop.calls.clear()
        shop.broken = False
        await runtime.store.do(RedoRun(run["id"], by=Actor("ada", "code")))
        await runtime.drain()
        run = await seen(runtime, run)
    assert (run["state"], run["output"]) == ("done", "sold")
    assert shop.calls == ["reserve book", "charge book", "print"], "not printed without a reservation"


async def test_an_undo_that_fails_holds_the_run_until_a_person_has_spoken(app: App):
    shop = Shop(app, on_failure="undo")
    shop.unfit_undo = Persistent("the bank says no")
    async with working(app) as runtime:
        run = await go(runtime)
        assert run["state"] == "held"
        assert "undo charge: Persistent: the bank says no" in run["reason"]
        story = await story_of(runtime, run)
        assert "The run failed: Persistent: out of stock" in story
        undo = next(one for one in run["effects"] if one["action"] == "undo charge")
        await settle(runtime.store, undo["id"], "abandon", by=Actor("ada", "code"), note="too late")
        await runtime.drain()
        run = await seen(runtime, run)
    assert (run["state"], run["error"]["message"]) == ("dead", "out of stock")
    assert "undone: reserve; not undone: charge (decided by ada)" in run["reason"]
    assert shop.calls[3:] == ["release book"]


async def test_a_dead_letter_keeps_its_key_after_it_was_undone(app: App):
    shop = Shop(app, on_failure="undo", key="data")
    async with working(app) as runtime:
        first = await go(runtime, "a")
        second = await go(runtime, "a")
        assert (first["state"], second["state"]) == ("dead", "ready")
        assert shop.calls == DONE + UNDONE
        shop.broken = False
        await runtime.store.do(RedoRun(first["id"], by=Actor("ada", "code")))
        await runtime.drain()
        states = [(await seen(runtime, one))["state"] for one in (first, second)]
    assert states == ["done", "done"]


async def test_its_caller_hears_of_it_once_it_is_undone_and_runs_that_it_called_are_cancelled(app: App):
    shop = Shop(app, on_failure="undo")
    heard: list[str] = []

    @app.agent(on("sell"), name="seller")
    async def seller(run: Run) -> None:
        try:
            await run.call("order", None)
        except Persistent as error:
            heard.append(f"{len(shop.calls)} {error}")

    async with working(app) as runtime:
        run = await ended(runtime, await app.emit("sell"))
    assert run["state"] == "done"
    assert heard[0].startswith(f"{len(DONE + UNDONE)} ")
    assert "out of stock" in heard[0]


@pytest.mark.parametrize("why", ["deadline", "crashes"])
async def test_one_that_is_too_late_or_crashed_too_often_undoes_what_it_did_too(app: App, store_url: str, why: str):
    calls: list[str] = []

    def release(op: Operation) -> None:
        calls.append("release")

    @action(safety="idempotent", undo=release)
    async def reserve(op: Operation) -> None:
        calls.append("reserve")

    @app.agent(on("go"), on_failure="undo", deadline="1h" if why == "deadline" else None, max_crashes=3)
    async def order(run: Run) -> None:
        await run.act(reserve)
        await run.sleep("2h")

    async with working(app) as runtime:
        run = await go(runtime)
        if why == "crashes":
            await query(store_url, "update wakeful_run set crashes = 3")
        await pass_time(runtime, "3h")
        run = await seen(runtime, run)
    assert calls == ["reserve", "release"]
    assert run["state"] == "dead"
    assert run["error"]["type"] == ("DeadlineExceeded" if why == "deadline" else "TooManyCrashes")
    assert run["reason"].endswith("; undone: reserve")


async def test_what_nobody_knows_is_settled_first(app: App):
    calls: list[str] = []
    begun = asyncio.Event()

    def release(op: Operation) -> None:
        calls.append("release")

    @action(safety="idempotent", undo=release)
    async def reserve(op: Operation) -> None:
        calls.append("reserve")
        if not begun.is_set():
            begun.set()
            await asyncio.Event().wait()

    async def fail() -> None:
        await begun.wait()
        raise Persistent("out of stock")

    @app.agent(on("go"), on_failure="undo")
    async def order(run: Run) -> None:
        await asyncio.gather(run.act(reserve), fail())

    async with working(app) as runtime:
        run = await go(runtime)
    assert (run["state"], run["error"]["message"]) == ("dead", "out of stock")
    assert calls == ["reserve", "reserve", "release"], "whether the first call was done is not known"
    assert len({one["id"] for one in run["effects"]}) == 2


async def test_a_wrong_choice_is_named(app: App):
    with pytest.raises(ConfigError, match=r'on_failure.*"undo"'):

        @app.agent(on("go"), on_failure="undoo")
        async def order(run: Run) -> None: ...


class TestCancelOfADeadLetter:
    async def cancel(self, runtime: Runtime, run: dict[str, Any]) -> Cancelled:
        cancelled = await runtime.store.do(CancelRun(run["id"], by=Actor("ada", "code"), note="give it back"))
        assert cancelled is not None
        await runtime.drain()
        return cancelled

    async def test_what_it_did_is_undone(self, app: App):
        shop = Shop(app)
        async with working(app) as runtime:
            run = await go(runtime)
            answer = await self.cancel(runtime, run)
            after = await seen(runtime, run)
            (alarm,) = (await runtime.reader.alarms())["alarms"]
            dead = (await plan_redo(runtime.reader, Choice())).letters
        assert (answer.was, answer.now, answer.refused) == ("dead", "ready", None)
        assert shop.calls == DONE + UNDONE
        assert (after["state"], dead, alarm["state"]) == ("cancelled", [], "resolved")
        assert after["reason"].startswith("cancelled by ada: give it back; undone: charge, reserve")
        (remedy,) = after["remedies"]
        assert (remedy["verb"], remedy["error"]["message"]) == ("cancel", "out of stock")

    async def test_one_that_did_nothing_is_over_at_once(self, app: App):
        @app.agent(on("go"))
        async def order(run: Run) -> None:
            raise Persistent("out of stock")

        async with working(app) as runtime:
            run = await go(runtime)
            answer = await self.cancel(runtime, run)
            (alarm,) = (await runtime.reader.alarms())["alarms"]
        assert (answer.was, answer.now, alarm["state"]) == ("dead", "cancelled", "resolved")

    async def test_those_behind_it_may_go_once_it_is_undone(self, app: App):
        shop = Shop(app, key="data")
        async with working(app) as runtime:
            first, second = await go(runtime, "a"), await go(runtime, "a")
            shop.broken = False
            await self.cancel(runtime, first)
            states = [(await seen(runtime, one))["state"] for one in (first, second)]
        assert states == ["cancelled", "done"]
        assert shop.calls == [*DONE, *UNDONE, *DONE], "one after the other"

    async def test_one_that_was_undone_is_over_at_once(self, app: App):
        shop = Shop(app, on_failure="undo")
        async with working(app) as runtime:
            run = await go(runtime)
            before = list(shop.calls)
            await self.cancel(runtime, run)
            assert (await seen(runtime, run))["state"] == "cancelled"
        assert shop.calls == before

    async def test_it_can_be_replayed_after_that(self, app: App):
        shop = Shop(app, staged=True)
        async with working(app) as runtime:
            run = await go(runtime)
            assert run["state"] == "dead"
            await self.cancel(runtime, run)
            shop.calls.clear()
            shop.broken = False
            await runtime.store.do(RedoRun(run["id"], by=Actor("bob", "code")))
            await runtime.drain()
            assert (await seen(runtime, run))["state"] == "done"
        assert shop.calls == ["reserve book", "charge book", "print"]

    async def test_not_while_another_of_its_family_is_at_work(self, app: App):
        @action(safety="at_most_once")
        async def pay(op: Operation) -> str:
            raise TimeoutError("no answer")

        async def look() -> int:
            return 1

        @app.agent(on("go"))
        async def order(run: Run) -> None:
            await run.step(look)
            if "." in run.id:
                await run.act(pay)
            raise Persistent("out of stock")

        async with working(app) as runtime:
            run = await go(runtime)
            forked = await runtime.store.do(ForkRun(run["id"], run["steps"][0]["key"], "look", by=Actor("ada", "code")))
            assert forked is not None
            await runtime.drain()
            answer = await self.cancel(runtime, run)
        assert (
            answer.refused
            == f"shares its effects with run {forked.run}, which has not ended: wait for that run, or cancel it"
        )

    async def test_one_that_is_being_undone_is_told_so(self, app: App):
        shop = Shop(app, on_failure="undo")
        shop.unfit_undo = Persistent("no")
        async with working(app) as runtime:
            run = await go(runtime)
            answer = await self.cancel(runtime, run)
        assert answer.refused is not None
        assert answer.refused.startswith("failed, and its effects are already being undone")

    @pytest.mark.parametrize("crashes", [5])
    async def test_one_that_crashed_too_often_is_undone_by_a_later_cancel(
        self, new_app: NewApp, store_url: str, crashes: int
    ):
        app = new_app()
        shop = Shop(app)
        async with working(app) as runtime:
            run = await go(runtime)
            await query(store_url, f"update wakeful_run set crashes = {crashes}")
            await self.cancel(runtime, run)
            assert (await seen(runtime, run))["state"] == "cancelled"
        assert shop.calls == DONE + UNDONE
