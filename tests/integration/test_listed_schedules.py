"""Schedules as people see them: how they stand, how well they keep their time, and their story."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from support.apps import NewApp, pass_time, working
from wakeful import App, Run, on
from wakeful.clock import VirtualClock
from wakeful.errors import NotFound, ReservedName
from wakeful.intake.cloudevents import new_event
from wakeful.model import Decision
from wakeful.policy.decide import DEFAULT_RULES
from wakeful.resources import desk
from wakeful.resources import schedule_reading as schedules
from wakeful.runtime import Runtime
from wakeful.stores.request import Actor
from wakeful.triggers.at import at
from wakeful.triggers.cron import cron
from wakeful.triggers.every import every

START = datetime(2026, 1, 1, 0, 0, 30, tzinfo=UTC)


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(START)


def holding(app: App, *triggers: Any) -> list[Run]:
    runs: list[Run] = []

    @app.agent(*triggers, name="note", owner="ops")
    async def note(run: Run) -> None:
        runs.append(run)
        await run.wait_for("release")

    return runs


async def shown(runtime: Runtime, name: str = "note") -> dict[str, Any]:
    found = await runtime.reader.schedule(name)
    assert found is not None
    return found


async def story(runtime: Runtime, identifier: str) -> str:
    found = await runtime.reader.why(identifier)
    assert found is not None
    return "\n".join(found["story"])


async def test_one_that_is_new(app: App):
    holding(app, cron("30 8 * * *", tz="Europe/London", grace="5m"))
    async with working(app) as runtime:
        one = await shown(runtime)
    assert (one["app"], one["agent"], one["owner"], one["origin"], one["state"]) == (
        "app",
        "note",
        "ops",
        "code",
        "live",
    )
    assert one["next"] == {"at": "2026-01-01T08:30:00Z", "local": "2026-01-01T08:30:00+00:00", "zone": "Europe/London"}
    assert (one["last"], one["latest"], one["queued"], one["occurrences"]) == (None, None, None, [])
    assert (one["options"]["grace"], one["options"]["max_count"]) == (300.0, None)
    assert [(change["verb"], change["operator"]) for change in one["changes"]] == [("add", "code")]


async def test_how_late_and_how_often_it_fires(app: App):
    """Each run takes longer than the interval, so that every second occurrence is skipped."""
    holding(app, every("10m", tz="Europe/London", overlap="skip"))
    async with working(app) as runtime:
        for _ in range(5):
            await pass_time(runtime, "10m")
            await pass_time(runtime, "10m")
            await app.emit("release")
            await runtime.drain()
        one = await shown(runtime)
        assert "Over its last 5 occurrences it fired every 20 m 0 s; its rule says every 10 m 0 s." in await story(
            runtime, "note"
        )
    assert one["cadence"] == {
        "firings": 5,
        "late": 30.0,
        "typically_late": 30.0,
        "configured": 600.0,
        "real": 1200.0,
        "drift": 1.0,
    }
    assert (one["counts"]["fired"], one["counts"]["skipped"], one["counts"]["missed"]) == (5, 5, 0)
    assert [row["state"] for row in one["occurrences"][:3]] == ["skipped", "fired", "skipped"]


async def test_what_it_waits_for(app: App):
    runs = holding(app, every("10m"))
    async with working(app) as runtime:
        for _ in range(4):
            await pass_time(runtime, "10m")
        one = await shown(runtime)
        assert one["queued"] == {
            "from": "2026-01-01T00:20:00Z",
            "to": "2026-01-01T00:40:00Z",
            "count": 3,
            "waits_for": runs[0].id,
        }
        assert (one["last"]["run"], one["last"]["state"]) == (runs[0].id, "waiting")
        told = await story(runtime, "note")
        assert 'Schedule note wakes agent note of app app by every("10' in told
        assert (
            f"3 of its occurrences, the last of 2026-01-01 00:40:00 UTC, wait, because run {runs[0].id} has not finished: "
            "it is waiting. They will fire as one."
        ) in told
        await app.emit("release")
        await runtime.drain()
        told = await story(runtime, runs[-1].id)
        assert "for 2026-01-01 00:40 UTC." in told
        assert (
            "It also covers 2 occurrences, from 2026-01-01 00:20:00 UTC to 2026-01-01 00:30:00 UTC, which had not fired."
            in told
        )
        run = await runtime.reader.run(runs[-1].id)
        assert run is not None
        assert run["scheduled"] == {
            "schedule": "note",
            "for": "2026-01-01T00:40:00Z",
            "late": 30.0,
            "covers_from": "2026-01-01T00:10:00Z",
            "instants": 3,
        }


async def test_what_was_missed(new_app: NewApp, clock: VirtualClock):
    def declared() -> App:
        app = new_app()
        holding(app, every("10m", grace="5m"))
        return app

    async with working(declared()):
        pass
    clock.move("59m")
    async with working(declared()) as runtime:
        await runtime.drain()
        one = await shown(runtime)
        assert (one["latest"]["state"], one["latest"]["count"]) == ("missed", 5)
        assert [alarm["key"] for alarm in one["alarms"]] == ["missed/app/note"]
        told = await story(runtime, "note")
    assert (
        "5 occurrences, from 2026-01-01 00:10:00 UTC to 2026-01-01 00:50:00 UTC, were missed: no worker was running"
        in told
    )
    assert "It has not fired yet." in told
    assert "It fires next for 2026-01-01 01:00 UTC, 30 s from now." in told
    assert "An alarm is open: schedule note missed 5 occurrences" in told


async def test_a_pause_is_told_with_who_and_how_to_end_it(app: App):
    holding(app, every("10m"))
    async with working(app) as runtime:
        await runtime.schedules.pause("note", by=Actor("ada", "cli"), note="too loud")
        told = await story(runtime, "note")
        assert "ada paused it at 2026-01-01 00:00:30 UTC: too loud." in told
        assert "It has been paused since 2026-01-01 00:00:30 UTC by ada" in told
        assert "`wakeful schedules resume note`" in told
        looking = desk.looking(runtime.reader)
        one = await schedules.find(looking, "note")
        assert one is not None
        occurrences = await schedules.upcoming(looking, one, count=2)
        assert occurrences is not None
        assert [one["at"] for one in occurrences["next"]] == ["2026-01-01T00:10:00Z", "2026-01-01T00:20:00Z"]
        await runtime.schedules.resume("note", by=Actor("ada", "cli"))
        await runtime.schedules.remove("note", by=Actor("bob", "cli"))
        assert "It was removed by bob at" in await story(runtime, "note")


async def test_one_that_was_fired_by_hand(app: App):
    runs = holding(app, at("2026-01-02T00:00"))
    async with working(app) as runtime:
        receipt = await runtime.schedules.fire("note", by=Actor("ada", "cli"))
        await runtime.drain()
        assert "was fired by hand, by ada." in await story(runtime, runs[0].id)
        assert "was fired by hand, by ada." in await story(runtime, receipt.id)
        assert (await shown(runtime))["cadence"]["firings"] == 0


async def test_an_occurrence_that_policy_denied(new_app: NewApp):
    def never(facts: Any) -> Decision | None:
        return Decision("deny", rule="never", reason="it is new year")

    app = new_app(rules=(never, *DEFAULT_RULES))
    holding(app, every("10m"))
    async with working(app) as runtime:
        await pass_time(runtime, "10m")
        told = await story(runtime, "2026-01-01T00:10:00Z")
        assert "It is the occurrence of schedule note" in told
        assert "it is new year" in told
        assert "Its occurrence of 2026-01-01 00:10:00 UTC was skipped: denied: never: it is new year." in await story(
            runtime, "note"
        )


async def test_what_others_send_as_if_it_came_from_a_schedule_is_no_occurrence(app: App):
    @app.agent(on("wakeful.schedule"))
    async def note(run: Run) -> None: ...

    async with working(app) as runtime:
        forged = new_event("wakeful.schedule", source="/app/schedules/none", id="x", scheduledfor="never")
        with pytest.raises(ReservedName, match='source "/app/schedules/none" is reserved'):
            await runtime.door.accept([forged])
        await runtime.door.accept([forged], by="source")  # stored before such names were reserved
        await runtime.drain()
        assert "occurrence" not in await story(runtime, "x")


async def test_the_listing(app: App, new_app: NewApp):
    other = new_app("desk")
    holding(app, every("10m"), cron("0 8 * * *", name="morning"))
    holding(other, every("10m"))
    async with working(app) as runtime, working(other):
        await runtime.schedules.add("extra", every("1h"), "note", by=Actor("ada", "cli"))
        await runtime.schedules.remove("extra", by=Actor("ada", "cli"))
        reader = runtime.reader

        async def names(**options: Any) -> list[str]:
            return [f"{one['app']}/{one['name']}" for one in (await reader.schedules(**options))["schedules"]]

        assert await names() == ["app/morning", "app/note", "desk/note"]
        assert await names(app="desk") == ["desk/note"]
        assert await names(whole=True, app="app") == ["app/extra", "app/morning", "app/note"]
        assert await names(state="removed") == ["app/extra"]
        assert await names(agent="nobody") == []
        first = await reader.schedules(limit=2)
        assert [one["name"] for one in first["schedules"]] == ["morning", "note"]
        assert await names(after=first["next"]) == ["desk/note"]
        with pytest.raises(NotFound, match="several apps"):
            await reader.schedule("note")
        with pytest.raises(NotFound, match="wakeful why APP/note"):
            await reader.why("note")
        assert "of app desk" in await story(runtime, "desk/note")
        assert await reader.schedule("note", app="desk") is not None
        assert await reader.schedule("nothing") is None


async def test_nobody_has_its_agent(new_app: NewApp):
    first = new_app()
    holding(first, every("10m"))
    async with working(first):
        pass
    other = new_app("desk")
    holding(other)
    async with working(other) as runtime:
        assert "No live worker has agent note of app app" in await story(runtime, "note")
