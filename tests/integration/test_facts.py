"""`run.facts`: what a handler tells policy, on both stores."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from support.apps import NewApp, go, working
from wakeful import App, Operation, Run, VirtualClock, action, cron, fact, on
from wakeful.clock import to_datetime
from wakeful.model import Decision
from wakeful.policy.decide import DEFAULT_RULES
from wakeful.policy.facts import EffectFacts, Facts
from wakeful.stores.request import Actor
from wakeful.stores.verbs.commit import ReleaseRun
from wakeful.testing import crash_everywhere

OWNERS_ONLY = """
policy: 1
rules:
  - {id: owners, action: post, when: facts.owner == "ada", answer: allow}
  - {id: own-schedules, at: schedule, when: facts.owner != "ada", answer: deny, reason: not hers}
"""


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    path = tmp_path / "policy.yaml"
    path.write_text(OWNERS_ONLY)
    return path


def write(path: Path, text: str) -> None:
    path.write_text(text)


def a_post(calls: list[int], **options: Any) -> Any:
    @action(risk="high", **{"safety": "idempotent", **options})
    async def post(_: Operation, what: int) -> None:
        calls.append(what)

    return post


def declare(app: App, facts: Sequence[tuple[str, Any]], *, stage: bool = False, **options: Any) -> list[int]:
    calls: list[int] = []
    post = a_post(calls)

    @app.agent(on("go"), name="agent", attempts=1, **options)
    async def agent(run: Run) -> dict[str, Any]:
        for name, value in facts:
            run.facts[name] = value(run) if callable(value) else value
        if stage:
            run.stage(post, 7)
        else:
            await run.act(post, 7)
        return dict(run.facts)

    return calls


class TestRules:
    async def test_know_what_the_handler_set(self, new_app: NewApp, policy: Path):
        app = new_app(policy=policy)
        calls = declare(app, [("owner", "bob"), ("owner", "ada"), ("since", datetime(2026, 1, 2))])
        async with working(app) as runtime:
            run = await go(runtime)
        assert (run["state"], calls) == ("done", [7])
        assert run["output"] == {"owner": "ada", "since": "2026-01-02T00:00:00"}

    @pytest.mark.parametrize("facts", [[], [("owner", "bob")], [("other", "ada")]])
    async def test_do_not_guess(self, new_app: NewApp, policy: Path, facts: list[tuple[str, Any]]):
        app = new_app(policy=policy)
        calls = declare(app, facts)
        async with working(app) as runtime:
            run = await go(runtime)
        assert (run["state"], calls) == ("denied", [])

    @pytest.mark.parametrize(("age", "state"), [("59m", "done"), ("61m", "denied")])
    async def test_do_not_know_a_stale_one(self, new_app: NewApp, policy: Path, age: str, state: str):
        def owner(run: Run) -> Any:
            old = run.now() - timedelta(minutes=int(age.removesuffix("m")))
            return fact("ada", as_of=old, max_age="1h")

        app = new_app(policy=policy)
        declare(app, [("owner", owner)])
        async with working(app) as runtime:
            assert (await go(runtime))["state"] == state

    async def test_in_python_know_them_too(self, new_app: NewApp):
        seen: list[Any] = []

        def owners(facts: Facts) -> Decision | None:
            if not isinstance(facts, EffectFacts):
                return None
            seen.append(facts.facts["owner"].value)
            return Decision("allow", "owners", "it is hers")

        app = new_app(rules=(*DEFAULT_RULES, owners))
        declare(app, [("owner", "ada")])
        async with working(app) as runtime:
            assert (await go(runtime))["state"] == "done"
        assert seen == ["ada"]

    @pytest.mark.parametrize(("owner", "state"), [("ada", "done"), ("bob", "denied")])
    async def test_about_schedules_know_them(self, new_app: NewApp, policy: Path, owner: str, state: str):
        app = new_app(policy=policy)
        post = a_post([])

        @app.agent(on("go"), name="agent")
        async def agent(run: Run) -> None:
            run.facts["owner"] = owner
            await run.schedule("nightly", cron("0 3 * * *"))
            if owner == "never":
                await run.act(post, 1)

        async with working(app) as runtime:
            assert (await go(runtime))["state"] == state


class TestStaged:
    async def test_ones_are_judged_by_the_facts_of_the_handler(self, new_app: NewApp, policy: Path):
        app = new_app(policy=policy)
        calls = declare(app, [("owner", "ada")], stage=True)
        async with working(app) as runtime:
            assert (await go(runtime))["state"] == "done"
        assert calls == [7]

    async def test_ones_of_a_held_output_too_when_it_is_released_elsewhere(self, new_app: NewApp, policy: Path):
        app = new_app(policy=policy)
        calls = declare(app, [("owner", "ada")], stage=True, checks=[lambda _: "look first"])
        async with working(app) as runtime:
            held = await go(runtime)
            assert held["state"] == "held"
        other = new_app(policy=policy)
        calls += declare(other, [("owner", "bob")], stage=True)  # the action is found by its place: the first one
        async with working(other) as runtime:
            await runtime.store.do(ReleaseRun(held["id"], by=Actor("ada", "code")))
            await runtime.drain()
            run = await runtime.reader.run(held["id"])
        assert run is not None
        assert (run["state"], calls) == ("done", [7])


class TestRefused:
    @pytest.mark.parametrize(
        ("name", "value", "words"),
        [
            ("owner", object(), "cannot be stored as JSON"),
            ("owner", fact({1, object()}), "cannot be stored as JSON"),
            ("", "ada", "text of 1 to 200 characters"),
            (7, "ada", "text of 1 to 200 characters"),
            ("owner", "x" * 300_000, "over the limit"),
        ],
    )
    async def test_names_and_values_that_cannot_be(self, app: App, name: Any, value: Any, words: str):
        declare(app, [(name, value)])
        async with working(app) as runtime:
            run = await go(runtime)
        assert run["state"] == "dead"
        assert words in run["error"]["message"]

    async def test_facts_inside_a_step(self, app: App):
        async def inner(run: Run) -> None:
            run.facts["owner"] = "ada"

        @app.agent(on("go"), attempts=1)
        async def agent(run: Run) -> None:
            from wakeful import step

            await run.step(step(name="inner")(lambda: inner(run)))

        async with working(app) as runtime:
            run = await go(runtime)
        assert "inside step inner" in run["error"]["message"]


async def test_facts_can_be_read_and_deleted(app: App):
    @app.agent(on("go"))
    async def agent(run: Run) -> Any:
        run.facts["a"] = fact(1, as_of=run.now(), max_age="1h")
        run.facts["b"] = 2
        del run.facts["b"]
        return [run.facts["a"], len(run.facts), "b" in run.facts, repr(run.facts)]

    async with working(app) as runtime:
        assert (await go(runtime))["output"] == [1, 1, False, "{'a': 1}"]


@pytest.mark.slow
@pytest.mark.parametrize("stage", [False, True])
async def test_a_crash_changes_no_judgement(store_url: str, policy: Path, clock: VirtualClock, stage: bool):
    """Before the handler runs again, and after the commit, policy is asked without the handler's lines."""
    app = App("app", policy=policy, clock=clock)
    calls: list[int] = []
    post = a_post(calls)

    @app.agent(on("go"), name="agent", attempts=1)
    async def agent(run: Run) -> str:
        run.facts["owner"] = fact("ada", as_of=to_datetime(0), max_age="365000d")
        await run.step(read)
        run.facts["more"] = 1
        if stage:
            run.stage(post, 7)
        else:
            await run.act(post, 7)
        run.facts["owner"] = "bob"  # the facts at the end of the handler count for what it staged
        return "posted"

    async def read() -> int:
        return 1

    if stage:
        write(policy, OWNERS_ONLY.replace('"ada", answer: allow', '"bob", answer: allow'))
    report = await crash_everywhere(app, "go", store=store_url, observe=lambda: set(calls), reset=calls.clear)
    report.check()
