"""Changes of state that the tables of wakeful.model list and that need an odd story: each is made by the code here, on both stores."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from support.apps import FOREVER, NewApp, ended, go, pass_time, the_run, working
from wakeful import App, Circuit, Denied, NotSent, Operation, Run, VirtualClock, action, on, step
from wakeful.model import Decision, Event, Receipt
from wakeful.policy.decide import DEFAULT_RULES, EffectFacts
from wakeful.runtime import Runtime
from wakeful.stores.request import Actor
from wakeful.stores.verbs.cancel import CancelRun
from wakeful.stores.verbs.processes import BuryProcess
from wakeful.stores.verbs.redo import RedoRun
from wakeful.stores.verbs.settling import SettleEffect
from wakeful.triggers.at import at
from wakeful.triggers.every import every

ADA = Actor("ada", "code")
FIRST, LATER = "2026-01-01T00:10", "2026-01-01T02:00"


class Rule:
    """A rule that holds effects while it is on."""

    __name__ = "switched"

    def __init__(self) -> None:
        self.on = False

    def __call__(self, facts: Any) -> Decision | None:
        return Decision("hold", "switched", "on") if self.on and isinstance(facts, EffectFacts) else None


async def effect_of(runtime: Runtime, receipt: Receipt) -> dict[str, Any]:
    (effect,) = (await the_run(runtime, receipt))["effects"]
    found: dict[str, Any] = effect
    return found


# runs


async def test_a_denied_run_is_replayed(app: App):
    asked: list[int] = []

    @app.agent(on("go"))
    async def agent(run: Run) -> str:
        asked.append(1)
        if len(asked) == 1:
            raise Denied("not yet")
        return "allowed"

    async with working(app) as runtime:
        run = await go(runtime)
        assert run["state"] == "denied"
        await runtime.store.do(RedoRun(run["id"], by=ADA))
        await runtime.drain()
        assert ((await runtime.reader.run(run["id"])) or {})["output"] == "allowed"


async def test_a_parked_run_is_cancelled(new_app: NewApp):
    app = new_app(circuits={"stripe": Circuit(failures=1, rest="1h")})

    @step(dependency="stripe", attempts=2, backoff="1ms")
    async def charge() -> None:
        raise ConnectionError("down")

    @app.agent(on("go"))
    async def pay(run: Run) -> None:
        await run.step(charge)

    async with working(app) as runtime:
        run = await go(runtime)
        assert run["state"] == "parked"
        cancelled = await runtime.store.do(CancelRun(run["id"], by=ADA))
        assert cancelled is not None
        assert (cancelled.was, cancelled.now) == ("parked", "cancelled")


# effects


def staging(app: App, calls: list[str], *, fails: int = 0) -> None:
    """An agent that stages a call, or makes it at once if its data says so. The first calls fail, certainly without having been made."""

    @action(backoff="1h")
    async def post(op: Operation, text: str) -> str:
        calls.append(text)
        if len(calls) <= fails:
            raise NotSent("the line was busy")
        return "posted"

    @app.agent(on("go"), attempts=1)
    async def agent(run: Run) -> str:
        if run.event.data == "at once":
            return await run.act(post, "a")
        run.stage(post, "a")
        return "staged"


@pytest.mark.parametrize("restored", [False, True], ids=["held", "unknown"])
async def test_a_staged_effect_is_held_or_unknown_when_its_turn_comes(new_app: NewApp, restored: bool):
    rule, calls = Rule(), list[str]()
    app = new_app(rules=(rule, *DEFAULT_RULES))
    staging(app, calls)
    async with working(app) as runtime:
        rule.on = not restored
        if restored:  # as after a backup: the call may have been made where the store was before
            runtime.store.database.restored_before = 1_000
        receipt = await app.emit("go")
        run = await ended(runtime, receipt)
        assert (run["state"], (await effect_of(runtime, receipt))["state"], calls) == ("held", "held", [])


@pytest.mark.parametrize("restored", [False, True], ids=["held", "unknown"])
async def test_an_effect_that_was_staged_and_dropped_is_held_or_unknown_when_it_is_asked_for(
    new_app: NewApp, restored: bool
):
    """The replay's data lets the handler do at once what it had staged."""
    rule, calls = Rule(), list[str]()
    app = new_app(rules=(rule, *DEFAULT_RULES))
    staging(app, calls)
    async with working(app) as runtime:
        rule.on = True
        receipt = await app.emit("go", "later")
        run = await ended(runtime, receipt)
        assert run["state"] == "held"
        await runtime.store.do(CancelRun(run["id"], by=ADA))
        assert (await effect_of(runtime, receipt))["state"] == "abandoned"
        rule.on = not restored
        if restored:
            runtime.store.database.restored_before = 1_000
        await runtime.store.do(RedoRun(run["id"], data='"at once"', by=ADA))
        run = await ended(runtime, receipt)
        assert (run["state"], [one["state"] for one in run["effects"]], calls) == ("held", ["held"], [])


@pytest.mark.parametrize("state", ["intent", "unknown"])
async def test_an_open_effect_of_a_run_that_is_over_is_abandoned(new_app: NewApp, state: str):
    """A process was killed, or stopped, during the call. Then the run was ended at once, as when an app is retired."""
    begun, never = asyncio.Event(), asyncio.Event()

    @action(safety="idempotent")
    async def post(op: Operation) -> None:
        begun.set()
        await never.wait()

    app = new_app()

    @app.agent(on("go"), name="agent")
    async def agent(run: Run) -> None:
        await run.act(post)

    runtime = Runtime(app, lease=FOREVER)
    await runtime.open()
    await runtime.start()
    receipt = await runtime.door.accept([Event("/test", "1", "go")])
    await begun.wait()
    process = runtime.membership.process
    await (runtime.die() if state == "intent" else runtime.stop(grace=0))
    async with working(new_app(), worker=False) as looking:
        await looking.store.do(BuryProcess(process, certain=True))
        effect = await effect_of(looking, receipt[0])
        assert effect["state"] == state
        await looking.store.do(CancelRun(receipt[0].runs[0], undo=False, by=ADA))
        await looking.store.do(SettleEffect(effect["id"], "abandoned", by=ADA))
        assert (await effect_of(looking, receipt[0]))["state"] == "abandoned"


def paying(app: App, *answers: Exception | asyncio.Event) -> None:
    left = list(answers)

    @action(once="arguments.invoice", attempts=1)
    async def pay(op: Operation, invoice: str) -> str:
        answer = left.pop(0) if left else None
        if isinstance(answer, Exception):
            raise answer
        if answer is not None:
            await answer.wait()
            raise NotSent("the line was busy")
        return "paid"

    @app.agent(on("go"), attempts=1)
    async def agent(run: Run) -> str:
        return await run.act(pay, "I-7")


async def test_a_run_that_comes_after_a_person_abandoned_the_operation(app: App):
    paying(app, ConnectionError("gone"))
    async with working(app) as runtime:
        first = await go(runtime)
        await runtime.store.do(SettleEffect(first["effects"][0]["id"], "abandoned", by=ADA))
        await runtime.drain()
        second = await go(runtime)
        assert (second["state"], second["effects"][0]["state"]) == ("dead", "abandoned")


async def test_a_run_that_waited_for_another_with_the_same_key_is_held_by_a_rule(new_app: NewApp):
    """The first run certainly did nothing, so it is the second one's turn, and policy is asked."""
    rule, gate = Rule(), asyncio.Event()
    app = new_app(rules=(rule, *DEFAULT_RULES))
    paying(app, gate)
    async with working(app) as runtime:
        first = await app.emit("go")
        async with asyncio.timeout(60):
            while not (await the_run(runtime, first))["effects"]:
                await asyncio.sleep(0)
        second = await app.emit("go")
        async with asyncio.timeout(60):
            while [one["state"] for one in (await the_run(runtime, second))["effects"]] != ["retrying"]:
                await asyncio.sleep(0)
        rule.on = True
        gate.set()
        await runtime.drain()
        assert (await the_run(runtime, first))["state"] == "dead"
        assert ((await the_run(runtime, second))["state"], (await effect_of(runtime, second))["state"]) == (
            "held",
            "held",
        )


# schedules


def noting(app: App, *triggers: Any) -> App:
    @app.agent(*triggers, name="note")
    async def note(run: Run) -> None: ...

    return app


async def state_of(runtime: Runtime, name: str) -> str:
    found = await runtime.reader.schedule(name)
    assert found is not None
    return str(found["state"])


async def test_a_schedule_that_is_done_gets_a_later_time_and_is_removed(app: App):
    async with working(noting(app)) as runtime:
        schedules = runtime.schedules
        await schedules.add("mine", at(FIRST), "note", by=ADA)
        await pass_time(runtime, "1h")
        assert await state_of(runtime, "mine") == "done"
        await schedules.edit("mine", at(LATER), by=ADA)
        assert await state_of(runtime, "mine") == "live"
        await pass_time(runtime, "2h")
        assert await state_of(runtime, "mine") == "done"
        await schedules.remove("mine", by=ADA)
        assert await state_of(runtime, "mine") == "removed"


async def test_a_paused_schedule_whose_time_passes_is_done_when_it_is_resumed(app: App):
    async with working(noting(app)) as runtime:
        schedules = runtime.schedules
        await schedules.add("mine", at(FIRST), "note", by=ADA)
        await schedules.pause("mine", by=ADA)
        await pass_time(runtime, "1h")
        await schedules.resume("mine", by=ADA)
        assert await state_of(runtime, "mine") == "done"


async def test_a_paused_schedule_is_removed(app: App):
    async with working(noting(app)) as runtime:
        schedules = runtime.schedules
        await schedules.add("mine", every("10m"), "note", by=ADA)
        await schedules.pause("mine", by=ADA)
        await schedules.remove("mine", by=ADA)
        assert await state_of(runtime, "mine") == "removed"


async def test_a_schedule_that_comes_back_into_the_code_when_its_time_is_over(new_app: NewApp, clock: VirtualClock):
    async with working(noting(new_app(), at(FIRST))) as runtime:
        assert await state_of(runtime, "note") == "live"
    async with working(noting(new_app())) as runtime:
        assert await state_of(runtime, "note") == "removed"
    clock.move("1h")
    async with working(noting(new_app(), at(FIRST))) as runtime:
        assert await state_of(runtime, "note") == "done"
