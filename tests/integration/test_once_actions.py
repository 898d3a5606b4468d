"""`@action(once=…)`: an operation is known by action and key, across runs."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from support.apps import NewApp, pass_time, the_run, working
from wakeful import App, ConfigError, NotSent, Operation, Persistent, Run, RunFailed, action, on
from wakeful.errors import EffectAbandoned
from wakeful.execution.housekeeping import Housekeeper, Retention
from wakeful.model import digest
from wakeful.stores.keeping import Keeper
from wakeful.stores.request import Actor
from wakeful.stores.verbs.cancel import CancelRun
from wakeful.stores.verbs.progress import LeaveRun
from wakeful.stores.verbs.redo import RedoRun
from wakeful.stores.verbs.settling import SettleEffect
from wakeful.why import why


class Bank:
    """What is outside: counts what was done to it, and can be slow, down or unsure."""

    def __init__(self) -> None:
        self.paid: list[tuple[str, int]] = []
        self.operations: list[str] = []
        self.answers: list[Any] = []  # what the next calls do instead: an error, or an event to wait for
        self.called = asyncio.Event()

    async def pay(self, op: Operation, invoice: str, amount: int) -> str:
        self.operations.append(op.id)
        self.called.set()
        answer = self.answers.pop(0) if self.answers else None
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, asyncio.Event):
            await answer.wait()
        self.paid.append((invoice, amount))
        return f"receipt {len(self.paid)}"


def paying(app: App, bank: Bank, *, staged: bool = False, **options: Any) -> App:
    options = {"once": "arguments.invoice", "safety": "idempotent", "attempts": 1, **options}

    @action(**options)
    async def pay(op: Operation, invoice: str, amount: int = 1) -> str:
        return await bank.pay(op, invoice, amount)

    @app.agent(on("bill"), attempts=1, name="payer")
    async def payer(run: Run) -> str:
        if staged:
            run.stage(pay, run.event.data["invoice"], run.event.data.get("amount", 1))
            return "staged"
        return await run.act(pay, run.event.data["invoice"], run.event.data.get("amount", 1))

    return app


async def bill(runtime, invoice: Any = "I-7", **data: Any) -> dict[str, Any]:
    receipt = await runtime.app.emit("bill", {"invoice": invoice, **data})
    await runtime.drain()
    return await the_run(runtime, receipt)


async def again(runtime, run: dict[str, Any]) -> dict[str, Any]:
    """The same run, as it is now."""
    found = await runtime.reader.run(run["id"])
    assert found is not None
    return found


async def story_of(runtime, identifier: str) -> str:
    told = await why(runtime.reader, identifier)
    assert told is not None
    return " ".join(told["story"])


async def test_a_second_run_gets_the_result_of_the_first(app: App):
    bank = Bank()
    async with working(paying(app, bank)) as runtime:
        first = await bill(runtime)
        second = await bill(runtime)
        other = await bill(runtime, "I-8")
        assert [first["output"], second["output"], other["output"]] == ["receipt 1", "receipt 1", "receipt 2"]
        assert bank.paid == [("I-7", 1), ("I-8", 1)]
        (own,), (followed,) = first["effects"], second["effects"]
        assert (own["state"], followed["state"]) == ("confirmed", "confirmed")
        assert followed["reason"] == f"once: done by run {first['id']}"
        assert (followed["once"], followed["follows"], followed["tries"]) == ("I-7", own["id"], 0)
        assert own["operation"] == bank.operations[0]
        assert own["operation"] != own["id"]
        assert f"done by run {first['id']}" in await story_of(runtime, second["id"])
        assert f'It has key "I-7", and is sent to the service as operation {own["operation"]}' in await story_of(
            runtime, own["id"]
        )
        assert f'It makes no call, because effect {own["id"]} has its key "I-7"' in await story_of(
            runtime, followed["id"]
        )


async def test_the_operation_id_derives_from_the_key(new_app: NewApp):
    """Not from the run: a service that knows the id knows the invoice again, whoever asks."""
    bank = Bank()
    async with working(paying(new_app("one"), bank)) as runtime:
        await bill(runtime, "I-7")
        await bill(runtime, "I-8")
    async with working(paying(new_app("two"), bank)) as runtime:
        await bill(runtime, "I-7")
    assert len(set(bank.operations)) == 3
    assert bank.operations[0] == digest("once", "one", "pay", "I-7", "1")


async def test_an_effect_is_found_by_the_operation_id_that_the_service_was_told(app: App):
    """It is the one in the service's own records."""
    bank = Bank()
    async with working(paying(app, bank)) as runtime:
        first = await bill(runtime, "I-7")
        await bill(runtime, "I-7")
        await bill(runtime, "I-8")
        (operation, _) = bank.operations
        effect = first["effects"][0]["id"]
        assert operation != effect
        for identifier in (operation, operation[:10], effect):
            found = await runtime.reader.effect(identifier)
            assert found is not None
            assert (found["id"], found["operation"]) == (effect, operation)
        assert await runtime.reader.effect(operation[:5]) is None
        told = await why(runtime.reader, operation)
        assert told is not None
        assert told["subject"] == {"kind": "effect", "id": effect}


async def test_other_arguments_under_the_same_key_are_told(app: App):
    bank = Bank()
    async with working(paying(app, bank)) as runtime:
        await bill(runtime, amount=1)
        second = await bill(runtime, amount=2)
    assert bank.paid == [("I-7", 1)]
    assert second["effects"][0]["reason"].endswith(", with other arguments")


@pytest.mark.parametrize("staged", [False, True])
async def test_64_at_once(new_app: NewApp, staged: bool):
    bank, release = Bank(), asyncio.Event()
    bank.answers = [release]
    one, two = (paying(new_app(clock=None, in_flight=64), bank, staged=staged) for _ in range(2))
    async with working(one), working(two) as runtime:
        apps = (one, two)
        receipts = await asyncio.gather(
            *[apps[number % 2].emit("bill", {"invoice": "I-7"}, id=str(number)) for number in range(64)]
        )
        await bank.called.wait()
        release.set()
        outputs = await asyncio.gather(*[two.result(receipt, timeout="60s") for receipt in receipts])
        effects = (await runtime.reader.effects(limit=500))["effects"]
    assert bank.paid == [("I-7", 1)]
    assert outputs == (["staged"] if staged else ["receipt 1"]) * 64
    assert [effect["state"] for effect in effects] == ["confirmed"] * 64
    assert len([effect for effect in effects if effect["follows"] is None]) == 1


async def test_a_run_that_waits_for_long_is_put_away_and_woken(new_app: NewApp, monkeypatch: pytest.MonkeyPatch):
    """It holds no worker, and the end of the first wakes it: not its own look, which comes much later."""
    monkeypatch.setattr("wakeful.execution.once.WAITS_IN_PLACE", 0)
    monkeypatch.setattr("wakeful.execution.once.FIRST_LOOK", 3600 * 1_000_000)
    monkeypatch.setattr("wakeful.execution.once.LAST_LOOK", 3600 * 1_000_000)
    bank, release = Bank(), asyncio.Event()
    bank.answers = [release]
    one, two = (paying(new_app(clock=None), bank) for _ in range(2))
    async with working(one):
        first = await one.emit("bill", {"invoice": "I-7"}, id="one")
        await bank.called.wait()
        async with working(two) as runtime:
            second = await one.emit("bill", {"invoice": "I-7"}, id="two")
            while (waiting := await the_run(runtime, second))["state"] != "waiting":
                await asyncio.sleep(0.01)
            assert (
                waiting["reason"]
                == f'waits for run {first.runs[0]}, which does it for key "I-7" (its effect is intent)'
            )
            assert f"waits for run {first.runs[0]}" in await story_of(runtime, second.runs[0])
            release.set()
            assert await two.result(second, timeout="60s") == "receipt 1"
    assert len(bank.paid) == 1


async def test_the_end_of_the_first_comes_just_before_the_second_goes_to_wait(
    new_app: NewApp, monkeypatch: pytest.MonkeyPatch
):
    """Forced in order: the second has asked, the first is confirmed, then the second is put away."""
    monkeypatch.setattr("wakeful.execution.once.WAITS_IN_PLACE", 0)
    monkeypatch.setattr("wakeful.execution.once.FIRST_LOOK", 3600 * 1_000_000)
    bank, release = Bank(), asyncio.Event()
    bank.answers = [release]
    one, two = (paying(new_app(clock=None), bank) for _ in range(2))
    async with working(one) as first_runtime, working(two, worker=True) as runtime:
        leave, going = runtime.store.do, asyncio.Event()

        async def leave_late(request):
            if isinstance(request, LeaveRun) and request.follows:
                release.set()
                await one.result(first, timeout="60s")
                going.set()
            return await leave(request)

        monkeypatch.setattr(runtime.store, "do", leave_late)
        monkeypatch.setattr(first_runtime.store, "do", leave_late)
        first = await one.emit("bill", {"invoice": "I-7"}, id="one")
        await bank.called.wait()
        second = await two.emit("bill", {"invoice": "I-7"}, id="two")
        await going.wait()
        assert await two.result(second, timeout="60s") == "receipt 1"
    assert len(bank.paid) == 1


async def test_twice_in_one_run(app: App):
    bank = Bank()

    @action(once="arguments.invoice", safety="idempotent")
    async def pay(op: Operation, invoice: str) -> str:
        return await bank.pay(op, invoice, 1)

    @app.agent(on("bill"))
    async def payer(run: Run) -> list[str]:
        both = await asyncio.gather(run.act(pay, "I-7"), run.act(pay, "I-7"))
        return [*both, await run.act(pay, "I-7")]

    async with working(app) as runtime:
        receipt = await app.emit("bill")
        await runtime.drain()
        assert (await the_run(runtime, receipt))["output"] == ["receipt 1"] * 3
    assert len(bank.paid) == 1


@pytest.mark.parametrize("error", [Persistent("no such account"), NotSent("the line is busy")])
async def test_what_was_certainly_not_done_is_done_by_the_next(app: App, error: Exception):
    bank = Bank()
    bank.answers = [error]
    async with working(paying(app, bank)) as runtime:
        first = await bill(runtime)
        assert first["state"] == "dead"
        second = await bill(runtime)
        assert (second["output"], bank.paid) == ("receipt 1", [("I-7", 1)])
        assert len(set(bank.operations)) == 2  # a service that remembers a refusal under the id must not repeat it
        # The first is replayed: the second has done it.
        await runtime.store.do(RedoRun(first["id"], by=Actor("ada", "code")))
        await runtime.drain()
        replayed = await again(runtime, first)
        assert (replayed["state"], replayed["output"]) == ("done", "receipt 1")
        assert len(bank.paid) == 1


@pytest.mark.usefixtures("durably")
async def test_what_nobody_knows_is_waited_for_with_the_first(app: App):
    bank = Bank()
    bank.answers = [ConnectionResetError("gone")]
    async with working(paying(app, bank, safety="at_most_once")) as runtime:
        first = await bill(runtime)
        assert first["state"] == "held"
        second = await app.emit("bill", {"invoice": "I-7"}, id="two")
        await runtime.drain()
        waiting = await the_run(runtime, second)
        assert waiting["state"] == "waiting"
        assert f"waits for run {first['id']}" in waiting["reason"]
        assert "(its effect is held)" in await story_of(runtime, waiting["id"])
        await runtime.store.do(
            SettleEffect(
                first["effects"][0]["id"], "confirmed", result='"R-1"', by=Actor("ada", "code"), note="on the statement"
            )
        )
        await runtime.drain()
        assert [(await the_run(runtime, second))["output"], bank.paid] == ["R-1", []]


@pytest.mark.usefixtures("durably")
async def test_a_result_that_another_run_has_by_its_key_is_not_corrected(app: App):
    bank = Bank()
    bank.answers = [ConnectionResetError("gone")]
    async with working(paying(app, bank, safety="at_most_once")) as runtime:
        first = await bill(runtime)
        second = await bill(runtime)
        (effect,) = first["effects"]
    async with working(app, worker=False) as runtime:  # so that no run goes on with it
        said = await runtime.store.do(
            SettleEffect(effect["id"], "confirmed", result='"R-1"', by=Actor("ada", "code"), note=None)
        )
        assert said is not None
        assert said.first
        wrong = await runtime.store.do(
            SettleEffect(effect["id"], "confirmed", result='"R-2"', by=Actor("ada", "code"), note=None)
        )
        assert wrong is not None
        assert (
            wrong.refused
            == f"run {second['id']} has the same key and got the result that ada gave: it can no longer be corrected"
        )


@pytest.mark.usefixtures("durably")
async def test_what_a_person_abandoned_does_not_happen_for_the_next_either(app: App):
    bank = Bank()
    bank.answers = [ConnectionResetError("gone")]
    async with working(paying(app, bank, safety="at_most_once", once_for="30d")) as runtime:
        first = await bill(runtime)
        waiting = await app.emit("bill", {"invoice": "I-7"}, id="two")
        await runtime.drain()
        await runtime.store.do(
            SettleEffect(first["effects"][0]["id"], "abandoned", by=Actor("ada", "code"), note="a duplicate")
        )
        await runtime.drain()
        second = await the_run(runtime, waiting)
        assert second["state"] == "dead"
        assert second["error"]["type"] == EffectAbandoned.__name__
        assert "abandoned by ada: a duplicate" in second["error"]["message"]
        await pass_time(runtime, "31d")
        assert (await bill(runtime))["output"] == "receipt 1"


@pytest.mark.usefixtures("durably")
async def test_a_person_says_that_it_was_not_done(app: App):
    bank = Bank()
    bank.answers = [ConnectionResetError("gone")]
    async with working(paying(app, bank, safety="at_most_once")) as runtime:
        first = await bill(runtime)
        second = await app.emit("bill", {"invoice": "I-7"}, id="two")
        await runtime.drain()
        await runtime.store.do(
            SettleEffect(first["effects"][0]["id"], "retrying", by=Actor("ada", "code"), note="not there")
        )
        await runtime.drain()
        await pass_time(runtime, "10m")
        outputs = [(await the_run(runtime, second))["output"], (await again(runtime, first))["output"]]
        assert outputs == ["receipt 1", "receipt 1"]
        assert len(bank.paid) == 1


async def test_a_run_that_dies_before_the_call_lets_the_next_do_it(app: App):
    """Its effect waits for its next try when the deadline comes: it was certainly not done."""
    bank = Bank()
    bank.answers = [NotSent("busy"), NotSent("busy")]

    @action(once="arguments.invoice", attempts=5, backoff="1h")
    async def pay(op: Operation, invoice: str) -> str:
        return await bank.pay(op, invoice, 1)

    @app.agent(on("bill"), attempts=1, deadline="10m")
    async def payer(run: Run) -> str:
        return await run.act(pay, run.event.data["invoice"])

    async with working(app) as runtime:
        first = await bill(runtime)
        assert first["state"] == "waiting"
        bank.answers.clear()
        await pass_time(runtime, "11m")
        assert (await again(runtime, first))["state"] == "dead"
        second = await bill(runtime)
        assert second["output"] == "receipt 1"
        await runtime.store.do(RedoRun(first["id"], by=Actor("ada", "code")))
        await pass_time(runtime, "2h")
        assert (await again(runtime, first))["output"] == "receipt 1"
    assert len(bank.paid) == 1


async def test_the_key_is_free_again_when_its_time_is_over(app: App):
    bank = Bank()
    async with working(paying(app, bank, once_for="30d")) as runtime:
        await bill(runtime)
        await pass_time(runtime, "29d")
        await bill(runtime)
        await pass_time(runtime, "1d")
        await bill(runtime)
    assert len(bank.paid) == 2
    assert len(set(bank.operations)) == 2


async def test_what_was_undone_may_be_done_again(app: App):
    bank = Bank()

    @action(once="arguments.invoice", safety="idempotent", undo=lambda op, invoice: bank.paid.pop())
    async def pay(op: Operation, invoice: str) -> str:
        return await bank.pay(op, invoice, 1)

    @app.agent(on("bill"))
    async def payer(run: Run) -> str:
        receipt = await run.act(pay, run.event.data["invoice"])
        if run.event.data.get("wait"):
            await run.sleep("30d")
        return receipt

    async with working(app) as runtime:
        first = await bill(runtime, wait=True)
        second = await bill(runtime, wait=True)
        assert len(bank.paid) == 1
        await runtime.store.do(
            CancelRun(second["id"], by=Actor("ada", "code"))
        )  # it did nothing: there is nothing to undo
        await runtime.drain()
        assert len(bank.paid) == 1
        await runtime.store.do(CancelRun(first["id"], by=Actor("ada", "code")))
        await runtime.drain()
        assert bank.paid == []
        third = await bill(runtime)
        assert (third["output"], len(bank.paid)) == ("receipt 1", 1)


@pytest.mark.parametrize("how", ["fails", "is cancelled"])
async def test_what_another_run_counts_on_is_not_undone(app: App, how: str):
    bank = Bank()

    @action(once="arguments.invoice", safety="idempotent", undo=lambda op, invoice: bank.paid.pop())
    async def pay(op: Operation, invoice: str) -> str:
        return await bank.pay(op, invoice, 1)

    @app.agent(on("bill"), on_failure="undo")
    async def payer(run: Run) -> str:
        receipt = await run.act(pay, run.event.data["invoice"])
        await run.act(pay, run.event.data["invoice"])  # its own second use is nobody else's
        if run.event.data.get("wait"):
            await run.sleep("1d")
            raise Persistent("out of stock")
        return receipt

    async with working(app) as runtime:
        first = await bill(runtime, wait=True)
        lonely = await bill(runtime, "I-8", wait=True)
        second = await bill(runtime)
        assert (second["output"], len(bank.paid)) == ("receipt 1", 2)
        if how == "is cancelled":
            for run in (first, lonely):
                await runtime.store.do(CancelRun(run["id"], by=Actor("ada", "code")))
            await runtime.drain()
        else:
            await pass_time(runtime, "1d")
        assert bank.paid == [("I-7", 1)]
        ended = await again(runtime, first)
        assert ended["state"] == ("dead" if how == "fails" else "cancelled")
        assert f"not undone: pay (run {second['id']} has the same key and counts on it)" in ended["reason"]
        assert "; undone: pay" in (await again(runtime, lonely))["reason"]


def refunding(app: App, bank: Bank, refund: Any) -> App:
    @action(once="arguments.invoice", safety="idempotent", undo=refund)
    async def pay(op: Operation, invoice: str) -> str:
        return await bank.pay(op, invoice, 1)

    @app.agent(on("bill"), name="payer")
    async def payer(run: Run) -> str:
        receipt = await run.act(pay, run.event.data["invoice"])
        if run.event.data.get("wait"):
            await run.sleep("30d")
        return receipt

    return app


async def waits(runtime: Any, receipt: Any) -> dict[str, Any]:
    while (found := await the_run(runtime, receipt))["state"] != "waiting":
        await asyncio.sleep(0.01)
    return found


async def test_a_run_that_asks_during_the_undo_waits_and_does_it_anew(new_app: NewApp, monkeypatch: pytest.MonkeyPatch):
    """Its own look would come much later: the end of the undo wakes it."""
    monkeypatch.setattr("wakeful.execution.once.WAITS_IN_PLACE", 0)
    monkeypatch.setattr("wakeful.execution.once.FIRST_LOOK", 3600 * 1_000_000)
    monkeypatch.setattr("wakeful.execution.once.LAST_LOOK", 3600 * 1_000_000)
    bank, taking_back, going = Bank(), asyncio.Event(), asyncio.Event()

    async def refund(op: Operation, invoice: str) -> None:
        taking_back.set()
        await going.wait()
        bank.paid.pop()

    one, two = (refunding(new_app(clock=None), bank, refund) for _ in range(2))
    async with working(one) as doing:
        first = await one.emit("bill", {"invoice": "I-7", "wait": True}, id="one")
        await waits(doing, first)
        await doing.store.do(CancelRun(first.runs[0], by=Actor("ada", "code")))
        await taking_back.wait()
        async with working(two) as runtime:
            second = await two.emit("bill", {"invoice": "I-7"}, id="two")
            waiting = await waits(runtime, second)
            assert waiting["reason"] == f'waits for run {first.runs[0]}, which is undoing it for key "I-7"'
            assert f"waits for run {first.runs[0]}" in await story_of(runtime, second.runs[0])
            going.set()
            assert await two.result(second, timeout="60s") == "receipt 1"
            with pytest.raises(RunFailed, match="; undone: pay"):
                await two.result(first, timeout="60s")
    assert (len(bank.paid), len(set(bank.operations))) == (1, 2)


@pytest.mark.usefixtures("durably")
@pytest.mark.parametrize(("answer", "paid"), [("abandoned", 1), ("confirmed", 2)])
async def test_a_run_waits_for_a_person_who_has_to_say_what_became_of_the_undo(app: App, answer: Any, paid: int):
    bank = Bank()

    async def refund(op: Operation, invoice: str) -> None:
        raise Persistent("the account is closed")

    async with working(refunding(app, bank, refund)) as runtime:
        first = await bill(runtime, wait=True)
        await runtime.store.do(CancelRun(first["id"], by=Actor("ada", "code")))
        await runtime.drain()
        second = await bill(runtime)
        assert (second["state"], len(bank.paid)) == ("waiting", 1)
        (held,) = [one for one in (await again(runtime, first))["effects"] if one["state"] == "held"]
        await runtime.store.do(SettleEffect(held["id"], answer, by=Actor("ada", "code")))
        await runtime.drain()
        assert (await again(runtime, second))["state"] == "done"
        assert ("not undone: pay" in (await again(runtime, first))["reason"]) == (answer == "abandoned")
    assert len(bank.paid) == paid


@pytest.mark.usefixtures("durably")
async def test_a_run_that_waits_can_be_cancelled(app: App):
    bank = Bank()
    bank.answers = [ConnectionResetError("gone")]
    async with working(paying(app, bank, safety="at_most_once")) as runtime:
        await bill(runtime)
        second = await bill(runtime)
        await runtime.store.do(CancelRun(second["id"], by=Actor("ada", "code")))
        await runtime.drain()
        assert (await again(runtime, second))["state"] == "cancelled"


async def test_resume_finds_the_result_again(app: App):
    bank, tries = Bank(), []

    @action(once="arguments.invoice", safety="idempotent")
    async def pay(op: Operation, invoice: str) -> str:
        return await bank.pay(op, invoice, 1)

    @app.agent(on("bill"), backoff="10ms")
    async def payer(run: Run) -> str:
        receipt = await run.act(pay, "I-7")
        tries.append(receipt)
        if len(tries) in {1, 3}:
            message = "after the effect"
            raise RuntimeError(message)
        return receipt

    async with working(app) as runtime:
        for number in range(2):
            await app.emit("bill", id=str(number))
            await runtime.drain()
            await pass_time(runtime, "1h")
        assert tries == ["receipt 1"] * 4
    assert len(bank.paid) == 1


async def test_an_action_without_a_key_for_its_arguments_is_done_like_any_other(app: App):
    bank = Bank()
    async with working(paying(app, bank, once=lambda invoice, amount: invoice or None)) as runtime:
        await bill(runtime, "")
        await bill(runtime, "")
        await bill(runtime, "I-7")
        await bill(runtime, "I-7")
    assert len(bank.paid) == 3


async def test_a_key_that_cannot_be_told_is_refused(app: App):
    """What should happen once must not happen again by mistake."""
    bank = Bank()
    async with working(paying(app, bank, once="arguments.invoice.number")) as runtime:
        run = await bill(runtime, "I-7")
        assert run["state"] == "dead"
        assert 'action pay: once="arguments.invoice.number" cannot be computed' in run["error"]["message"]
    assert bank.paid == []


async def test_a_run_whose_effect_has_a_key_is_kept_until_its_time_is_over(app: App):
    bank = Bank()
    async with working(paying(app, bank, once_for="30d")) as runtime:
        first = await bill(runtime)
        await app.emit("nothing")  # the newest run of all stays anyway
        await bill(runtime, "I-8")
        retention = Retention("app", default=86_400 * 1_000_000)
        housekeeper = Housekeeper(Keeper(runtime.store), retention, pause=0)
        await pass_time(runtime, "10d")
        await housekeeper.run_once()
        assert (await bill(runtime))["output"] == "receipt 1"
        assert await runtime.reader.run(first["id"]) is not None
        await pass_time(runtime, "31d")
        await housekeeper.run_once()  # the key goes,
        await housekeeper.run_once()  # and then the run
        assert await runtime.reader.run(first["id"]) is None
        assert len(bank.paid) == 2


async def test_an_action_without_once_costs_no_statement_more(app: App, monkeypatch: pytest.MonkeyPatch):
    """The plain verbs are used, and no key is looked at."""
    seen: list[str] = []

    @action(safety="idempotent")
    async def plain(op: Operation) -> None: ...

    @app.agent(on("bill"))
    async def payer(run: Run) -> None:
        await run.act(plain)

    async with working(app) as runtime:
        submit = runtime.store.journal.submit

        def noted(request: Any) -> Any:
            seen.append(type(request).__name__)
            return submit(request)

        monkeypatch.setattr(runtime.store.journal, "submit", noted)
        await bill(runtime)
    assert "OpenEffect" in seen
    assert not [name for name in seen if "Once" in name]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"once": "arguments.invioce"}, 'no such parameter. Did you mean "invoice"?'),
        ({"once": "invoice"}, 'Did you mean "arguments.invoice"?'),
        ({"once": "arguments.invoice ="}, "is not a CEL expression"),
        ({"once": 7}, "once must be a CEL expression"),
        ({"once": lambda invoice: invoice}, "does not take what pay takes"),
        ({"once_for": "30d"}, "give the action a once="),
        ({"once": "arguments.invoice", "once_for": "soon"}, "once_for"),
    ],
)
def test_what_cannot_be_meant(options: dict, words: str):
    with pytest.raises(ConfigError) as refused:

        @action(**options)
        async def pay(op: Operation, invoice: str, amount: int) -> None: ...

    assert words in str(refused.value)
