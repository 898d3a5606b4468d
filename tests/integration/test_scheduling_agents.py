"""Agents that make schedules: with a checkpoint, if policy lets them, and never those of code."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

from support.apps import NewApp, ended, go, pass_time, working
from support.stores import query
from wakeful import App, Denied, Run, Transient, on
from wakeful.clock import VirtualClock
from wakeful.intake.cloudevents import new_event
from wakeful.model import Decision
from wakeful.policy.decide import DEFAULT_RULES, ScheduleFacts
from wakeful.runtime import Runtime
from wakeful.stores.journal import Died
from wakeful.stores.request import Actor
from wakeful.stores.verbs.scheduling import ScheduleByRun
from wakeful.triggers.at import at
from wakeful.triggers.cron import cron
from wakeful.triggers.every import every
from wakeful.triggers.schedules import Schedules

START = datetime(2026, 1, 1, 0, 0, 30, tzinfo=UTC)


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(START)


async def changes(runtime: Runtime, name: str) -> list[tuple[str, str, int]]:
    found = await runtime.reader.schedule(name)
    assert found is not None
    return [(one["verb"], one["operator"], one["revision"]) for one in reversed(found["changes"])]


async def test_an_agent_wakes_itself_and_stops_that_again(app: App):
    woken: list[Any] = []

    @app.agent(on("go"), name="look")
    async def look(run: Run) -> Any:
        if run.scheduled_for is None:
            return await run.schedule("look-again", every("10m"), data={"n": 1})
        woken.append(run.event.data)
        return await run.unschedule("look-again") if len(woken) == 2 else None

    async with working(app) as runtime:
        run = await go(runtime)
        assert run["output"] == "2026-01-01T00:10:00Z"
        for _ in range(4):
            await pass_time(runtime, "10m")
        assert woken == [{"n": 1}, {"n": 1}]
        second = (await runtime.reader.runs(agent="look"))["runs"][0]
        assert await changes(runtime, "look-again") == [
            ("add", f"agent look (run {run['id']})", 1),
            ("remove", f"agent look (run {second['id']})", 2),
        ]


async def test_the_same_again_changes_nothing_and_another_rule_is_an_edit(app: App):
    @app.agent(on("go"), name="look")
    async def look(run: Run) -> None:
        await run.schedule("mine", every(run.event.data or "10m"))

    async with working(app) as runtime:
        for interval in (None, None, "20m"):
            assert (await go(runtime, interval))["state"] == "done"
        assert [(verb, revision) for verb, _, revision in await changes(runtime, "mine")] == [("add", 1), ("edit", 2)]
        shown = await runtime.reader.schedule("mine")
        assert shown is not None
        assert (shown["agent"], shown["origin"], shown["next"]["at"]) == ("look", "runtime", "2026-01-01T00:20:00Z")


async def test_a_resumed_run_does_not_schedule_again(app: App):
    tries = 0

    @app.agent(on("go"), name="look", backoff="1s")
    async def look(run: Run) -> str:
        nonlocal tries
        first = await run.schedule("mine", every("10m"))
        gone = await run.unschedule("mine"), await run.unschedule("mine")
        tries += 1
        if tries == 1:
            raise Transient("once more")
        return f"{first} {gone}"

    async with working(app) as runtime:
        receipt = await app.emit("go")
        await runtime.drain()
        await runtime.schedules.add("mine", every("1h"), "look", by=Actor("ada", "cli"))
        await pass_time(runtime, "1m")
        run = await ended(runtime, receipt)
        assert (run["output"], tries) == ("2026-01-01 00:10:00+00:00 (True, False)", 2)
        assert [verb for verb, _, _ in await changes(runtime, "mine")] == ["add", "remove", "add"]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("theirs", "no rule lets agent look add schedules of agent other: by default an agent schedules only itself"),
        ("others", "no rule lets agent look edit schedules of agent other: by default an agent schedules only itself"),
        ("gone", "no rule lets agent look remove schedules of agent other: by default an agent schedules only itself"),
        ("nightly", "agents cannot change schedule nightly: it is declared in code"),
        ("ended", "agents cannot change schedule ended: it is declared in code"),
    ],
)
async def test_what_is_denied_is_a_decision_with_its_reason(app: App, store_url: str, name: str, reason: str):
    caught: list[str] = []

    @app.agent(cron("0 3 * * *", name="nightly"), at("2020-01-01", name="ended"))
    async def other(run: Run) -> None: ...

    @app.agent(on("go"), name="look")
    async def look(run: Run) -> None:
        try:
            if name == "gone":
                await run.unschedule("others")
            else:
                await run.schedule(name, every("1h"), agent=other if name == "theirs" else None)
        except Denied as error:
            caught.append(str(error))
            raise

    async with working(app) as runtime:
        await runtime.schedules.add("others", every("2h"), "other", by=Actor("ada", "cli"))
        run = await go(runtime)
        assert run["state"] == "denied"
        assert caught[0].endswith(reason)
        assert reason in [one["reason"] for one in run["decisions"]]
        story = await runtime.reader.why(run["id"])
        assert story is not None
        assert reason in " ".join(story["story"])
        rows = await query(store_url, "select name, state, revision from wakeful_schedule order by name")
        assert [tuple(row) for row in rows] == [("ended", "done", 1), ("nightly", "live", 1), ("others", "live", 1)]


async def test_a_denial_that_was_caught_is_the_same_on_resume(app: App):
    tries = 0

    @app.agent()
    async def other(run: Run) -> None: ...

    @app.agent(on("go"), name="look", backoff="1s")
    async def look(run: Run) -> str:
        nonlocal tries
        tries += 1
        try:
            await run.schedule("theirs", every("1h"), agent="other")
        except Denied as error:
            if tries == 1:
                raise Transient("once more") from None
            return str(error)
        return "allowed"

    async with working(app) as runtime:
        receipt = await app.emit("go")
        await runtime.drain()
        await pass_time(runtime, "1m")
        run = await ended(runtime, receipt)
        assert run["output"].startswith("schedule theirs: none: no rule lets agent look add schedules of agent other")
        assert len(run["decisions"]) == 1


async def test_a_rule_lets_an_agent_schedule_others(new_app: NewApp):
    asked: list[ScheduleFacts] = []

    def planner_plans(facts: Any) -> Decision | None:
        if isinstance(facts, ScheduleFacts) and facts.agent == "planner":
            asked.append(facts)
            return Decision("allow", rule="planner_plans", reason="that is its work")
        return None

    app = new_app(rules=(planner_plans, *DEFAULT_RULES))
    woken: list[Any] = []

    @app.agent(owner="ops")
    async def worker(run: Run) -> None:
        woken.append(run.event.data)

    @app.agent(on("go"))
    async def planner(run: Run) -> None:
        await run.schedule("hourly", every("1h", tz="Europe/London"), agent=worker, data=7)

    async with working(app) as runtime:
        assert (await go(runtime))["state"] == "done"
        await pass_time(runtime, "1h")
    assert woken == [7]
    facts = asked[0]
    assert (facts.verb, facts.schedule, facts.target, facts.was) == ("add", "hourly", "worker", None)
    assert facts.rule.startswith("every(")


@pytest.mark.parametrize(
    ("name", "rule", "agent", "words"),
    [
        ("a/b", every("1h"), None, "without /"),
        ("mine", "0 8 * * *", None, "is not a schedule"),
        ("mine", every("1h", name="other"), None, "has a name of its own"),
        ("mine", every("1h"), "loook", 'has no agent "loook". Did you mean "look"?'),
        ("mine", at("2025-01-01"), None, "is in the past"),
    ],
)
async def test_what_cannot_be_meant(app: App, name: str, rule: Any, agent: Any, words: str):
    @app.agent(on("go"), name="look")
    async def look(run: Run) -> None:
        await run.schedule(name, rule, agent=agent)

    async with working(app) as runtime:
        run = await go(runtime)
        assert run["state"] == "dead"
        assert words in run["error"]["message"]


@pytest.mark.parametrize("point", ["before", "within", "after"])
async def test_a_death_around_the_commit_makes_one_schedule(new_app: NewApp, clock: VirtualClock, point: str):
    died = False

    def probe(where: str, requests: Any) -> None:
        nonlocal died
        if not died and where == point and any(isinstance(one, ScheduleByRun) for one in requests):
            died = True
            raise Died

    def declared() -> App:
        app = new_app()

        @app.agent(on("go"), name="look")
        async def look(run: Run) -> str:
            return str(await run.schedule("mine", every("10m")))

        return app

    runtime = Runtime(declared(), probe=probe)
    await runtime.open()
    await runtime.start()
    (receipt,) = await runtime.door.accept([new_event("go", None, source="/test")])
    while not died:
        await asyncio.sleep(0)
    await runtime.die()
    clock.move("1m")
    async with working(declared()) as second:
        run = await ended(second, receipt)
        assert run["state"] == "done"
        assert [(verb, revision) for verb, _, revision in await changes(second, "mine")] == [("add", 1)]


async def test_a_schedule_that_somebody_else_changes_at_the_same_time_is_looked_at_again(app: App):
    class Overtaken(Schedules):
        """Somebody edits it after it was looked at."""

        overtaken = False

        async def plan(self, name: str, *arguments: Any, **options: Any) -> Any:
            planned = await super().plan(name, *arguments, **options)
            if not self.overtaken:
                self.overtaken = True
                await self.edit(name, every("30m"), by=Actor("ada", "cli"))
            return planned

    @app.agent(on("go"), name="look")
    async def look(run: Run) -> None:
        await run.schedule("mine", every("20m"))

    async with working(app) as runtime:
        await runtime.schedules.add("mine", every("10m"), "look", by=Actor("ada", "cli"))
        runtime.surroundings.schedules = Overtaken("app", runtime.store)
        run = await go(runtime)
        assert run["state"] == "done"
        assert [(verb, by.split(" ")[0]) for verb, by, _ in await changes(runtime, "mine")] == [
            ("add", "ada"),
            ("edit", "ada"),
            ("edit", "agent"),
        ]
