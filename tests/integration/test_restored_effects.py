"""Effects that waited when their store was backed up: they may have been done since."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.apps import NewApp, pass_time, the_run, working
from support.backups import BackUp
from support.paying import EVE, approvals, begin, effects, policy_of, put_in_force, say, write
from wakeful import App, Operation, RateLimited, Run, action, on
from wakeful.operations.held import settle


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    path = tmp_path / "policy.yaml"
    path.write_text(policy_of())
    return path


@pytest.mark.parametrize("waits", ["for an approval", "for a retry"])
@pytest.mark.parametrize("safety", ["at_most_once", "idempotent", "reconcile"])
async def test_what_waited_is_in_doubt(
    new_app: NewApp, policy: Path, store_url: str, back_up: BackUp, safety: str, waits: str
):
    calls: list[str] = []
    busy = [waits == "for a retry"]

    def found(op: Operation, amount: int) -> str | None:
        return "found" if op.id in calls else None

    def shop() -> App:
        app = new_app(policy=policy)
        options = {"find": found, "settle": "0s"} if safety == "reconcile" else {}

        @action(safety=safety, **options)
        async def pay(op: Operation, amount: int) -> str:
            if busy:
                busy.clear()
                raise RateLimited(retry_after="1h")
            calls.append(op.id)
            return "paid"

        @app.agent(on("go"), attempts=1)
        async def billing(run: Run) -> str:
            return await run.act(pay, run.event.data["amount"])

        return app

    write(policy, policy_of("{within: 4h}").replace("redact: [arguments.card]\n", ""))
    amount = 50 if busy else 150
    app = shop()
    async with working(app) as runtime:
        receipt = await begin(app, runtime, amount)
        restore = await back_up(store_url)
        for asked in await approvals(runtime):
            await say(runtime, asked)
        await pass_time(runtime, "90m")
        assert (await the_run(runtime, receipt))["output"] == "paid"
    assert len(calls) == 1
    async with working(shop(), store=await restore()) as runtime:
        for asked in await approvals(runtime):
            await say(runtime, asked)
        await runtime.drain()
        run = await the_run(runtime, receipt)
        (effect,) = await effects(runtime)
        if safety == "at_most_once":
            assert (run["state"], effect["state"], len(calls)) == ("held", "held", 1)
            assert "restored from a backup" in effect["reason"]
            await settle(runtime.store, effect["id"], "repeat", by=EVE)
            await runtime.drain()
            assert ((await the_run(runtime, receipt))["output"], len(calls)) == ("paid", 2)
        elif safety == "reconcile":
            assert (run["output"], effect["state"], len(calls)) == ("found", "confirmed", 1)
        else:
            assert (run["output"], calls[0], len(calls)) == ("paid", calls[-1], 2)


@pytest.mark.parametrize("later", ["a no", "no answer", "a policy that denies", "a policy that allows"])
async def test_what_people_refuse_after_a_restore_is_held_because_it_may_have_been_done(
    new_app: NewApp, policy: Path, store_url: str, back_up: BackUp, later: str
):
    calls: list[str] = []

    def shop() -> App:
        app = new_app(policy=policy)

        @action
        async def pay(op: Operation, amount: int) -> str:
            calls.append(op.id)
            return "paid"

        @app.agent(on("go"), attempts=1)
        async def billing(run: Run) -> str:
            return await run.act(pay, run.event.data["amount"])

        return app

    write(policy, policy_of("{within: 4h}").replace("redact: [arguments.card]\n", ""))
    app = shop()
    async with working(app) as runtime:
        receipt = await begin(app, runtime, 150)
        restore = await back_up(store_url)
        (asked,) = await approvals(runtime)
        await say(runtime, asked)
        await runtime.drain()
        assert (await the_run(runtime, receipt))["output"] == "paid"
    async with working(shop(), store=await restore()) as runtime:
        if later == "no answer":
            await pass_time(runtime, "5h")
        elif later.startswith("a policy"):
            answer = "deny" if later.endswith("denies") else "allow"
            await put_in_force(
                runtime, f"policy: 1\nrules:\n  - {{id: new, action: pay, answer: {answer}, reason: as of now}}\n"
            )
        else:
            (asked,) = await approvals(runtime)
            await say(runtime, asked, "false")
        await runtime.drain()
        run = await the_run(runtime, receipt)
        (effect,) = await effects(runtime)
        assert (run["state"], effect["state"], len(calls)) == ("held", "held", 1)
        said = {"no answer": "no approval within 4 h", "a no": "eve said no"}
        assert said.get(later, "") in effect["reason"]
        assert "restored from a backup" in effect["reason"]
        await settle(runtime.store, effect["id"], "confirm", by=EVE, result='"paid"')
        await runtime.drain()
        assert ((await the_run(runtime, receipt))["output"], len(calls)) == ("paid", 1)
