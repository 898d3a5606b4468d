"""Checks of an output that know its run, those that are ready to use, and agents that must return an output."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pytest
from pydantic import BaseModel

from support.apps import go, working
from wakeful import App, ConfigError, NotSent, Operation, Run, action, on
from wakeful.checks import EffectToCheck, RunToCheck, did, fresh


class Report(BaseModel):
    as_of: datetime | None = None


class Answer(BaseModel):
    reports: list[Report]


def declare(app: App, *checks: Any, **options: Any) -> None:
    @action(safety="idempotent")
    async def post(_: Operation, number: int, text: str = "hello") -> str:
        return f"{text} {number}"

    @action
    async def mail(_: Operation, to: str) -> None:
        raise NotSent("closed")

    @app.agent(on("go"), name="agent", attempts=1, checks=checks, **options)
    async def agent(run: Run) -> Any:
        data = run.event.data or {}
        for number in range(data.get("posts", 0)):
            await run.act(post, number, text="hi")
        for number in range(data.get("staged", 0)):
            run.stage(post, number + 100)
        age = data.get("age")
        return None if age is None else {"report": {"as_of": (run.now() - timedelta(minutes=age)).isoformat()}}


class TestASecondParameter:
    @pytest.mark.parametrize("sync", [True, False])
    async def test_gets_the_event_and_the_effects(self, app: App, sync: bool):
        seen: list[RunToCheck] = []

        def look(_: Any, run: RunToCheck) -> None:
            seen.append(run)

        async def look_async(_: Any, run: RunToCheck) -> None:
            seen.append(run)

        declare(app, look if sync else look_async)
        async with working(app) as runtime:
            run = await go(runtime, {"posts": 1, "staged": 1}, subject="s")
        assert run["state"] == "done"
        (told,) = seen
        assert (told.event.subject, told.event.data) == ("s", {"posts": 1, "staged": 1})
        assert told.effects == (
            EffectToCheck("post", {"number": 0, "text": "hi"}, "confirmed", "hi 0"),
            EffectToCheck("post", {"number": 100, "text": "hello"}, "staged", None),
        )

    async def test_may_hold_the_output(self, app: App):
        declare(app, lambda _, run: f"{len(run.effects)} effects")
        async with working(app) as runtime:
            run = await go(runtime, {"posts": 2})
        assert (run["state"], run["reason"]) == ("held", "check <lambda>: 2 effects")

    async def test_with_a_default_is_the_checks_own(self, app: App):
        def short(output: Any, most: int = 3) -> bool:
            return output is None and most == 3

        declare(app, short)
        async with working(app) as runtime:
            assert (await go(runtime))["state"] == "done"

    async def test_is_optional_for_objects_and_builtins(self, app: App):
        @dataclass
        class Once:  # cannot be hashed
            calls: int = 0

            def __call__(self, _: Any, run: RunToCheck) -> bool:
                self.calls += 1
                return run.event.type == "go"

        once = Once()
        declare(app, once, id)
        async with working(app) as runtime:
            assert (await go(runtime))["state"] == "done"
        assert once.calls == 1


class TestFresh:
    @pytest.mark.parametrize(
        ("data", "reason"),
        [
            ({"age": 60}, None),
            ({"age": -5}, None),
            (
                {"age": 61},
                "check fresh(report.as_of): report.as_of is 2025-12-31T22:59:00Z, 1 h 1 m old: at most 1h is allowed",
            ),
            ({}, "check fresh(report.as_of): the output has no report.as_of"),
        ],
    )
    async def test_a_time_that_is_too_old_is_held(self, app: App, data: Any, reason: str | None):
        declare(app, fresh("report.as_of", "1h"))
        async with working(app) as runtime:
            run = await go(runtime, data)
        assert (run["state"], run["reason"]) == ("done" if reason is None else "held", reason)

    @pytest.mark.parametrize(
        ("path", "output", "words"),
        [
            ("reports.1.as_of", Answer(reports=[Report(), Report(as_of=datetime(2026, 1, 1))]), None),
            ("reports.0.as_of", Answer(reports=[Report()]), "the output has no reports.0.as_of"),
            ("reports.2.as_of", Answer(reports=[Report()]), "the output has no reports.2.as_of"),
            ("reports.first", Answer(reports=[Report()]), "the output has no reports.first"),
            ("at", {"at": "yesterday"}, "at is no time: 'yesterday'"),
            ("at", {"at": 17}, "at is no time: 17"),
            (
                "at",
                {"at": "2025-12-31T23:30:00+01:00"},
                "at is 2025-12-31T22:30:00Z, 1 h 30 m old: at most 1h is allowed",
            ),
            ("at", {"at": "2025-12-31T23:30"}, None),
        ],
    )
    def test_paths(self, path: str, output: Any, words: str | None):
        run = RunToCheck(None, (), datetime(2026, 1, 1))  # type: ignore[arg-type]
        assert fresh(path, "1h")(output, run) == words

    @pytest.mark.parametrize(("path", "age"), [("", "1h"), ("a..b", "1h"), (7, "1h"), ("a", "soon"), ("a", "0s")])
    def test_what_cannot_be_is_refused_where_it_is_written(self, path: Any, age: Any):
        with pytest.raises(ConfigError, match="fresh"):
            fresh(path, age)


class TestDid:
    @pytest.mark.parametrize(
        ("data", "least", "words"),
        [
            ({"posts": 1}, 1, None),
            ({"staged": 1}, 1, None),
            ({"posts": 1, "staged": 1}, 2, None),
            ({}, 1, "check did(post): the run has not used action post"),
            ({"posts": 1}, 2, "check did(post): the run has used action post 1 times, and at least 2 are expected"),
        ],
    )
    async def test_an_action_that_was_not_used_is_held(self, app: App, data: Any, least: int, words: str | None):
        declare(app, did("post", least))
        async with working(app) as runtime:
            run = await go(runtime, data)
        assert (run["state"], run["reason"]) == ("done" if words is None else "held", words)

    @pytest.mark.parametrize(
        ("state", "counts"), [("confirmed", True), ("staged", True), ("failed", False), ("held", False)]
    )
    def test_counts_what_is_or_will_be_done(self, state: Any, counts: bool):
        @action
        async def post(_: Operation) -> None: ...

        run = RunToCheck(None, (EffectToCheck("post", {}, state),), datetime(2026, 1, 1))  # type: ignore[arg-type]
        assert (did(post)(None, run) is None) is counts

    @pytest.mark.parametrize(
        ("given", "least"), [(7, 1), ("", 1), (None, 1), ("post", 0), ("post", True), ("post", "2")]
    )
    def test_what_cannot_be_is_refused_where_it_is_written(self, given: Any, least: Any):
        with pytest.raises(ConfigError, match="did"):
            did(given, least)


class TestExpectedOutput:
    @pytest.mark.parametrize(("data", "state"), [({}, "held"), ({"age": 0}, "done")])
    async def test_none_is_held(self, app: App, data: Any, state: str):
        declare(app, expects_output=True, deliver="log")
        async with working(app) as runtime:
            run = await go(runtime, data)
        assert run["state"] == state
        if state == "held":
            assert run["reason"] == "the agent is expected to return an output"
            assert (run["outcome"]["verification"], run["outcome"]["commit"]) == ("failed", "held")
            assert not run["outcome"]["silent_by_choice"]

    def test_is_true_or_false(self, app: App):
        with pytest.raises(ConfigError, match="expects_output must be True or False"):
            declare(app, expects_output="yes")


def test_checks_have_names_that_listings_show(app: App):
    checks: Sequence[Any] = [fresh("report.as_of", "1h"), did("post")]
    declare(app, *checks)
    assert app.agents["agent"].describe()["checks"] == ["fresh(report.as_of)", "did(post)"]
