"""Grants of an app at work: what a rule asks about happens without a question, as far as a grant reaches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.apps import NewApp, go, pass_time, working
from wakeful import App, NotSent, Operation, Run, action, on
from wakeful.clock import duration
from wakeful.model import Decision
from wakeful.policy.decide import EffectFacts
from wakeful.runtime import Runtime
from wakeful.stores.request import Actor
from wakeful.stores.verbs.grants import AddGrant, RevokeGrant
from wakeful.testing import World, crash_everywhere

ADA = Actor("ada", "code")
LOOK_FIRST = """
policy: 1
rules:
  - {id: all, answer: allow}
  - {id: look, action: pay, answer: ask, reason: look first}
"""


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    path = tmp_path / "policy.yaml"
    path.write_text(LOOK_FIRST)
    return path


def write(path: Path, text: str) -> None:
    path.write_text(text)


def declare(app: App, *answers: Any, risk: Any = "low") -> list[int]:
    """An agent that pays a number, and what was called."""
    calls: list[int] = []
    left = list(answers)

    @action(safety="idempotent", risk=risk, backoff="10ms")
    async def pay(_: Operation, amount: int) -> str:
        calls.append(amount)
        answer = left.pop(0) if left else "paid"
        if isinstance(answer, BaseException):
            raise answer
        return f"{answer} {amount}"

    @app.agent(on("go"), name="agent", attempts=1, owner="ops")
    async def agent(run: Run) -> str:
        return await run.act(pay, (run.event.data or {}).get("amount", 7))

    return calls


async def grant(runtime: Runtime, *, agent: str = "", action: str = "pay", most: int = 5, **more: Any) -> None:
    until = runtime.clock.now() + duration(more.pop("until", "7d"))
    where = more.pop("where", None)
    await runtime.store.do(AddGrant("g-one", runtime.app.name, agent, action, where, until, most, by=ADA))


async def used(runtime: Runtime) -> int:
    (one,) = await runtime.reader.grants(whole=True)
    return int(one["used"])


class TestAsks:
    async def test_what_a_rule_asks_about_happens(self, new_app: NewApp, policy: Path):
        app = new_app(policy=policy)
        calls = declare(app)
        async with working(app) as runtime:
            await grant(runtime)
            run = await go(runtime)
            assert (run["state"], calls, await used(runtime)) == ("done", [7], 1)
        (decision,) = run["decisions"]
        assert (decision["answer"], decision["rule"]) == ("allow", "look")
        assert decision["reason"] == "grant g-one by ada"

    async def test_without_one_it_waits_for_a_person(self, new_app: NewApp, policy: Path):
        app = new_app(policy=policy)
        calls = declare(app)
        async with working(app) as runtime:
            await grant(runtime, agent="other")
            assert (await go(runtime))["state"] != "done"
        assert calls == []

    @pytest.mark.parametrize(
        ("where", "amounts"),
        [
            ("arguments.amount < 100", [7]),
            ("data.amount == 700 && action == 'pay' && agent == 'agent' && run.attempt == 1", [700]),
            ("data.missing", []),  # unknown counts against
            ("arguments.amount > 'x'", []),
        ],
    )
    async def test_only_where_its_condition_is_true(
        self, new_app: NewApp, policy: Path, where: str, amounts: list[int]
    ):
        app = new_app(policy=policy)
        calls = declare(app)
        async with working(app) as runtime:
            await grant(runtime, where=where)
            for amount in (7, 700):
                await go(runtime, {"amount": amount})
        assert calls == amounts

    async def test_a_rule_in_python_that_asks(self, new_app: NewApp):
        def look(facts: Any) -> Decision | None:
            return Decision("ask", "look", "look first") if isinstance(facts, EffectFacts) else None

        app = new_app(rules=[look])
        calls = declare(app)
        async with working(app) as runtime:
            await grant(runtime, where="arguments.amount < 100")
            await go(runtime, {"amount": 7})
            await go(runtime, {"amount": 700})
        assert calls == [7]

    @pytest.mark.parametrize(
        ("rule", "risk"),
        [
            ("{id: never, action: pay, answer: deny}", "low"),
            ("{id: never, action: pay, answer: hold}", "low"),
            ("{id: other, action: mail, answer: ask}", "high"),  # no rule is about it: denied
        ],
    )
    async def test_it_serves_nothing_else(self, new_app: NewApp, policy: Path, rule: str, risk: str):
        write(policy, f"policy: 1\nrules:\n  - {rule}\n")
        app = new_app(policy=policy)

        @action
        async def mail(_: Operation) -> None: ...

        calls = declare(app, risk=risk)
        async with working(app) as runtime:
            await grant(runtime)
            assert (await go(runtime))["state"] in {"denied", "held"}
            assert await used(runtime) == 0
        assert calls == []

    async def test_as_often_as_granted_and_as_long(self, new_app: NewApp, policy: Path):
        app = new_app(policy=policy)
        calls = declare(app)
        async with working(app) as runtime:
            await grant(runtime, most=2, until="1h")
            for amount in (1, 2, 3):
                await go(runtime, {"amount": amount})
            assert calls == [1, 2]

    async def test_a_rule_that_asks_beyond_a_count(self, new_app: NewApp, policy: Path):
        write(policy, "policy: 1\nrules:\n  - {id: many, action: pay, over: 1/h, answer: ask}\n")
        app = new_app(policy=policy)
        calls = declare(app)
        async with working(app) as runtime:
            await grant(runtime, most=1)
            for amount in (1, 2, 3):
                await go(runtime, {"amount": amount})
            assert await used(runtime) == 1
        assert calls == [1, 2]


class TestRetries:
    async def test_do_not_count_again(self, new_app: NewApp, policy: Path):
        app = new_app(policy=policy)
        calls = declare(app, NotSent("busy", retry_after="1h"))
        async with working(app) as runtime:
            await grant(runtime, most=1)
            run = await go(runtime)
            await pass_time(runtime, "2h")
            run = await runtime.reader.run(run["id"])
            assert (run["state"], calls, await used(runtime)) == ("done", [7, 7], 1)

    async def test_are_not_served_once_it_is_revoked(self, new_app: NewApp, policy: Path):
        app = new_app(policy=policy)
        calls = declare(app, NotSent("busy", retry_after="1h"))
        async with working(app) as runtime:
            await grant(runtime)
            run = await go(runtime)
            await runtime.store.do(RevokeGrant("g-one", "app", by=ADA))
            await pass_time(runtime, "2h")
            run = await runtime.reader.run(run["id"])
            assert run["state"] != "done"
        assert calls == [7]


async def test_a_crash_anywhere_counts_the_effect_once(store_url: str, policy: Path):
    app = App("app", policy=policy)
    worlds: list[World] = []
    operations: set[str] = set()

    @action(safety="idempotent")
    async def pay(op: Operation, amount: int) -> int:
        operations.add(op.id)
        return amount

    @app.agent(on("go"), name="agent")
    async def agent(run: Run) -> int:
        return await run.act(pay, 7)

    async def arrange(world: World) -> None:
        worlds.append(world)
        await grant(world.runtime, most=1)

    async def observe() -> Any:
        runtime = worlds[-1].runtime
        rows = await runtime.database.fetch("uses_of_grant", "g-one", 10)
        return await used(runtime), len(rows), len(operations), [run["state"] for run in await worlds[-1].runs()]

    report = await crash_everywhere(
        app, "go", store=store_url, observe=observe, reset=operations.clear, arrange=arrange
    )
    report.check()
    assert report.baseline.outside == (1, 1, 1, ["done"])
