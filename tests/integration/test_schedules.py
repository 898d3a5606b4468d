"""Schedules: every occurrence ends in exactly one state, whoever was there, whatever was still running, and however it was edited."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from support.apps import NewApp, pass_time, working
from support.intercepting import Answering
from support.stores import query
from wakeful import App, ConfigError, Run, on
from wakeful.clock import VirtualClock, from_datetime, to_text
from wakeful.operations.scheduling import edited
from wakeful.runtime import Runtime
from wakeful.stores.keyring import new_key
from wakeful.stores.request import Actor
from wakeful.stores.verbs.pauses import ChangePause
from wakeful.stores.verbs.schedules import ChangeSchedule
from wakeful.triggers.at import at
from wakeful.triggers.base import Trigger
from wakeful.triggers.cron import cron
from wakeful.triggers.every import every
from wakeful.triggers.schedule import Schedule
from wakeful.triggers.scheduler import Scheduler
from wakeful.triggers.schedules import Schedules

START = datetime(2026, 1, 1, 0, 0, 30, tzinfo=UTC)


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(START)


def noting(app: App, *triggers: Trigger, **options: Any) -> list[Run]:
    runs: list[Run] = []

    @app.agent(*triggers, name="note", **options)
    async def note(run: Run) -> None:
        runs.append(run)

    return runs


async def ledger(runtime: Runtime, name: str = "note") -> list[tuple[str, str, str, int]]:
    """(state, from, to, count), in order of time."""
    stored = await runtime.schedules.find(name)
    assert stored is not None
    rows = await runtime.database.fetch("occurrences_of_schedule", stored.seq, 2**62, 1000)
    return [(row[1], short(row[3]), short(row[4]), row[5]) for row in reversed(rows)]


def short(moment: int) -> str:
    text = to_text(moment) or ""
    return text[11:16] if text.startswith("2026-01-01") else text[5:16]


async def test_each_instant_fires_once_and_the_next_one_stands_there_before(app: App):
    runs = noting(app, every("10m", grace="1h"))
    async with working(app) as runtime:
        stored = await runtime.schedules.find("note")
        assert stored is not None
        assert short(stored.next_at or 0) == "00:10"
        await pass_time(runtime, "9m")
        assert runs == []
        await pass_time(runtime, "10m")
        await pass_time(runtime, "10m")
        assert await ledger(runtime) == [("fired", "00:10", "00:10", 1), ("fired", "00:20", "00:20", 1)]
    (first, second) = runs
    assert first.scheduled_for == datetime(2026, 1, 1, 0, 10, tzinfo=UTC)
    assert first.late == timedelta(minutes=9, seconds=30)
    assert second.interval == (datetime(2026, 1, 1, 0, 10, tzinfo=UTC), datetime(2026, 1, 1, 0, 20, tzinfo=UTC))
    assert second.event.source == "/app/schedules/note"
    assert second.event.id == "2026-01-01T00:20:00Z"


async def looking(runtime: Runtime, app: App, meanwhile: Callable[[], Awaitable[None]]) -> Scheduler:
    """A scheduler that would rest until what is next, with no other one beside it but for what happens meanwhile."""
    await runtime.scheduler.stop()
    once = [meanwhile]

    async def after_it_asked_what_is_due(rows: list[Any]) -> list[Any]:
        if once:
            await once.pop()()
        return rows

    store: Any = Answering(runtime.store, "due_schedules", after_it_asked_what_is_due)
    return Scheduler(app.name, store, runtime.door.arrive, app.agents)


async def test_what_becomes_due_in_the_middle_of_a_look_does_not_wait_for_the_next_one(app: App, clock: VirtualClock):
    """It was not due when that was asked, and not to come any more when that was."""
    noting(app, every("10m"))
    async with working(app) as runtime:

        async def time_passes() -> None:
            clock.move("10m")

        scheduler = await looking(runtime, app, time_passes)
        await scheduler.run_once()
        assert scheduler.fired == 1


async def test_who_was_second_rests_until_what_the_first_left_to_come(app: App, clock: VirtualClock):
    noting(app, every("2s"))
    async with working(app) as runtime:

        async def another_fires_it() -> None:
            assert await runtime.scheduler.tick() == 1

        scheduler = await looking(runtime, app, another_fires_it)
        clock.move("2s")
        rest = await scheduler.run_once()
        assert scheduler.fired == 0
        assert rest is not None
        assert rest <= 2.0


async def test_the_latest_one_that_was_missed_is_done_and_the_others_coalesce(new_app: NewApp, clock: VirtualClock):
    runs = noting(new_app(), every("10m"))
    async with working(new_app_with(new_app, runs)):
        pass
    clock.move("45m")
    async with working(new_app_with(new_app, runs)) as runtime:
        await runtime.drain()
        assert await ledger(runtime) == [("coalesced", "00:10", "00:30", 3), ("fired", "00:40", "00:40", 1)]
    (run,) = runs
    assert run.interval == (datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, 0, 40, tzinfo=UTC))
    assert run.late == timedelta(minutes=5, seconds=30)


def new_app_with(new_app: NewApp, runs: list[Run], *triggers: Schedule) -> App:
    app = new_app()
    runs.clear()

    @app.agent(*(triggers or (every("10m", grace="1h"),)), name="note")
    async def note(run: Run) -> None:
        runs.append(run)

    return app


async def test_three_days_of_downtime_of_a_ten_second_schedule_are_one_row(new_app: NewApp, clock: VirtualClock):
    trigger = every("10s", grace="5s")
    async with working(new_app_with(new_app, [], trigger)):
        pass
    clock.move("3d")
    clock.move("6s")
    runs: list[Run] = []
    async with working(new_app_with(new_app, runs, trigger)) as runtime:
        await runtime.drain()
        assert await ledger(runtime) == [("missed", "00:00", "01-04T00:00", 3 * 8640)]
        alarms = {one["key"]: one["text"] for one in (await runtime.reader.alarms(state="open"))["alarms"]}
        assert "schedule note missed 25,920 occurrences, from 2026-01-01T00:00:40Z" in alarms["missed/app/note"]
        await pass_time(runtime, "4s")
        assert len(runs) == 1
        assert "missed/app/note" not in {one["key"] for one in (await runtime.reader.alarms(state="open"))["alarms"]}


@pytest.mark.parametrize(
    ("back_after", "expected"),
    [
        ("9h", [("fired", "08:00", "08:00", 1)]),
        ("19h59m", [("fired", "08:00", "08:00", 1)]),
        ("21h", [("missed", "08:00", "08:00", 1)]),
    ],
)
async def test_a_daily_one_is_done_up_to_half_a_day_late(
    new_app: NewApp, clock: VirtualClock, back_after: str, expected: Any
):
    app = new_app()
    noting(app, cron("0 8 * * *", tz="UTC"))
    async with working(app):
        pass
    clock.move(back_after)
    app = new_app()
    noting(app, cron("0 8 * * *", tz="UTC"))
    async with working(app) as runtime:
        await pass_time(runtime, "0s")
        assert await ledger(runtime) == expected


@pytest.mark.parametrize(
    ("catch_up", "expected"),
    [
        ("none", [("missed", "00:10", "00:30", 3), ("fired", "00:40", "00:40", 1)]),
        (
            "all",
            [
                ("missed", "00:10", "00:10", 1),
                ("fired", "00:20", "00:20", 1),
                ("fired", "00:30", "00:30", 1),
                ("fired", "00:40", "00:40", 1),
            ],
        ),
    ],
)
async def test_catching_up(new_app: NewApp, clock: VirtualClock, catch_up: str, expected: list[Any]):
    limits: dict[str, Any] = {"max_count": 3} if catch_up == "all" else {}
    trigger = every("10m", catch_up=catch_up, **limits)
    async with working(new_app_with(new_app, [], trigger)):
        pass
    clock.move("39m45s")
    async with working(new_app_with(new_app, [], trigger)) as runtime:
        await runtime.drain()
        assert await ledger(runtime) == expected


class TestOverlap:
    @staticmethod
    def holding(app: App, overlap: str) -> tuple[list[Run], list[str]]:
        runs: list[Run] = []
        ended: list[str] = []

        @app.agent(every("10m", overlap=overlap), name="note")
        async def note(run: Run) -> None:
            runs.append(run)
            await run.wait_for("release")
            ended.append(run.id)

        return runs, ended

    async def test_one_waits_for_the_run_before_it_and_covers_all_that_came_meanwhile(self, app: App):
        runs, _ = self.holding(app, "queue_one")
        async with working(app) as runtime:
            for _ in range(4):
                await pass_time(runtime, "10m")
            stored = await runtime.schedules.find("note")
            assert stored is not None
            assert (stored.waits_for, stored.queued and stored.queued.count) == (runs[0].id, 3)
            await app.emit("release")
            await runtime.drain()
            assert await ledger(runtime) == [
                ("fired", "00:10", "00:10", 1),
                ("coalesced", "00:20", "00:30", 2),
                ("fired", "00:40", "00:40", 1),
            ]
        assert runs[-1].interval == (datetime(2026, 1, 1, 0, 10, tzinfo=UTC), datetime(2026, 1, 1, 0, 40, tzinfo=UTC))

    async def test_skip(self, app: App):
        self.holding(app, "skip")
        async with working(app) as runtime:
            for _ in range(4):
                await pass_time(runtime, "10m")
            await app.emit("release")
            await runtime.drain()
            await pass_time(runtime, "10m")
            assert await ledger(runtime) == [
                ("fired", "00:10", "00:10", 1),
                ("skipped", "00:20", "00:40", 3),
                ("fired", "00:50", "00:50", 1),
            ]

    @pytest.mark.parametrize("overlap", ["allow", "queue_all"])
    async def test_all_of_them_at_once_or_one_after_the_other(self, app: App, overlap: str):
        runs, ended = self.holding(app, overlap)
        async with working(app) as runtime:
            for _ in range(3):
                await pass_time(runtime, "10m")
            assert [row[0] for row in await ledger(runtime)] == ["fired"] * 3
            assert len({run.id for run in runs}) == (3 if overlap == "allow" else 1)
            for _ in range(3):
                await app.emit("release")
                await runtime.drain()
        assert len(ended) == 3

    async def test_the_newest_takes_the_place_of_those_before_it(self, app: App):
        self.holding(app, "replace")
        async with working(app) as runtime:
            await pass_time(runtime, "10m")
            await pass_time(runtime, "10m")
            states = {one["state"] for one in (await runtime.reader.runs(agent="note"))["runs"]}
            assert states == {"waiting", "cancelled"}

    async def test_one_that_has_not_started_is_superseded(self, app: App):
        self.holding(app, "replace")
        async with working(app) as runtime:
            await runtime.store.do(ChangePause("app", "note", paused=True, by=Actor("ada", "code")))
            await pass_time(runtime, "10m")
            await pass_time(runtime, "10m")
            assert await ledger(runtime) == [("superseded", "00:10", "00:10", 1), ("fired", "00:20", "00:20", 1)]


async def test_an_edit_loses_no_instant_and_doubles_none(app: App):
    noting(app)
    async with working(app) as runtime:
        await runtime.schedules.add("mine", every("10m"), "note", data={"n": 1}, by=Actor("ada", "cli"))
        await pass_time(runtime, "10m")
        assert isinstance(runtime.clock, VirtualClock)
        runtime.clock.move("10m")  # due, and nobody has looked
        changed = await runtime.schedules.edit("mine", cron("*/5 * * * *"), by=Actor("ada", "cli"), note="more often")
        assert (changed.revision, short(changed.next_at or 0)) == (2, "00:25")
        await runtime.drain()
        await pass_time(runtime, "5m")
        assert [row[:2] for row in await ledger(runtime, "mine")] == [
            ("fired", "00:10"),
            ("fired", "00:20"),
            ("fired", "00:25"),
        ]


async def test_a_pause_skips_and_says_who(app: App):
    noting(app, every("10m"))
    async with working(app) as runtime:
        await runtime.schedules.pause("note", by=Actor("ada", "cli"))
        await pass_time(runtime, "31m")
        assert await ledger(runtime) == []
        await runtime.schedules.resume("note", by=Actor("ada", "cli"))
        await pass_time(runtime, "10m")
        assert await ledger(runtime) == [("skipped", "00:10", "00:30", 3), ("fired", "00:40", "00:40", 1)]


async def test_two_that_are_fired_by_hand_at_one_moment_are_two(app: App):
    runs = noting(app, every("10m"))
    async with working(app) as runtime:
        fired = [await runtime.schedules.fire("note", by=Actor(who, "cli")) for who in ("ada", "bob")]
        assert [one.status for one in fired] == ["accepted", "accepted"]
        await runtime.drain()
        assert {run.id for run in runs} == {one.runs[0] for one in fired}
        assert await ledger(runtime) == [("fired", "00:00", "00:00", 1)] * 2


async def test_what_is_removed_fires_no_more_and_one_that_is_fired_by_hand_does(app: App):
    runs = noting(app, at("2026-01-01T00:10"))
    async with working(app) as runtime:
        receipt = await runtime.schedules.fire("note", by=Actor("ada", "cli"))
        await runtime.drain()
        assert [run.id for run in runs] == receipt.runs
        await pass_time(runtime, "10m")
        stored = await runtime.schedules.find("note")
        assert stored is not None
        assert (stored.state, len(runs)) == ("done", 2)
        await runtime.schedules.add("more", every("1h"), "note", by=Actor("ada", "cli"))
        await runtime.schedules.remove("more", by=Actor("ada", "cli"))
        await pass_time(runtime, "2h")
        assert len(runs) == 2
        with pytest.raises(ConfigError, match='app app has no schedule "mor"'):
            await runtime.schedules.get("mor")


async def test_several_processes_race_and_one_fires(new_app: NewApp):
    runs: list[Run] = []
    each = every("10m", overlap="allow")
    async with (
        working(new_app_with(new_app, runs, each)) as first,
        working(new_app_with(new_app, runs, each)) as second,
        working(new_app_with(new_app, runs, each)) as third,
    ):
        assert isinstance(first.clock, VirtualClock)
        for _ in range(5):
            first.clock.move("10m")
            await asyncio.gather(*(one.scheduler.tick() for one in (first, second, third)))
        assert [row[0] for row in await ledger(first)] == ["fired"] * 5
        assert len((await first.reader.runs(agent="note"))["runs"]) == 5


async def test_the_code_that_starts_last_says_when(new_app: NewApp):
    runs: list[Run] = []
    async with working(new_app_with(new_app, runs)) as old:
        async with working(new_app_with(new_app, runs, every("15m"))) as new:
            await pass_time(new, "15m")
            await old.drain()
            assert [row[:2] for row in await ledger(new)] == [("fired", "00:15")]
        async with working(new_app_with(new_app, runs, every("15m", name="other"))) as new:
            stored = await new.schedules.find("note")
            assert stored is not None
            assert (stored.state, stored.changed_by) == ("removed", "code")


async def test_an_agent_can_have_both_a_schedule_and_events(app: App):
    runs = noting(app, every("10m"), on("go"))
    async with working(app) as runtime:
        await app.emit("go")
        await pass_time(runtime, "10m")
    assert [run.scheduled_for is None for run in runs] == [True, False]
    assert from_datetime(runs[1].scheduled_for or START) == from_datetime(START) + 570_000_000


async def test_what_became_of_instants_is_kept_as_long_as_the_runs(new_app: NewApp):
    app = new_app(retention="1d")
    noting(app, every("1h"))
    async with working(app) as runtime:
        for _ in range(30):
            await pass_time(runtime, "1h")
        await runtime.housekeeper.run_once()
        assert [row[1] for row in await ledger(runtime)][:2] == ["07:00", "08:00"]
        assert len(await ledger(runtime)) == 24


async def test_processes_that_begin_together_all_begin_when_the_code_has_one_less(new_app: NewApp):
    async with working(new_app_with(new_app, [], every("10m"), every("15m", name="gone"))):
        pass
    together = [working(new_app_with(new_app, [])) for _ in range(3)]
    runtimes = await asyncio.gather(*(one.__aenter__() for one in together))
    gone = await runtimes[0].schedules.find("gone")
    for one in together:
        await one.__aexit__(None, None, None)
    assert gone is not None
    assert (gone.state, gone.revision) == ("removed", 2)


async def test_one_that_is_late_while_another_waits_goes_along_with_it(app: App):
    """It costs no run of its own; and no row of the ledger lies inside another."""

    @app.agent(every("10m", catch_up="none"), name="note")
    async def note(run: Run) -> None:
        await run.wait_for("release")

    async with working(app) as runtime:
        for minutes in ("9m40s", "12m", "8m", "12m"):  # 00:10:10, 00:22:10, 00:30:10, 00:42:10
            await pass_time(runtime, minutes)
        await app.emit("release")
        await runtime.drain()
        assert await ledger(runtime) == [
            ("fired", "00:10", "00:10", 1),
            ("missed", "00:20", "00:20", 1),
            ("coalesced", "00:30", "00:30", 1),
            ("fired", "00:40", "00:40", 1),
        ]


class TestChangesWhileSomethingIsDue:
    @pytest.mark.parametrize("after", [every("10m", catch_up="all", max_count=50), every("7m", catch_up="all")])
    async def test_other_code_does_each_that_is_due_by_the_old_one(
        self, new_app: NewApp, clock: VirtualClock, after: Schedule
    ):
        async with working(new_app_with(new_app, [], every("10m", catch_up="all"))):
            pass
        clock.move("45m")
        runs: list[Run] = []
        async with working(new_app_with(new_app, runs, after)) as runtime:
            await runtime.drain()
            assert [row[:2] for row in await ledger(runtime)] == [
                ("fired", f"00:{minute}") for minute in (10, 20, 30, 40)
            ]
            assert len(runs) == 4
            await pass_time(runtime, "11m")
            assert len(runs) > 4

    async def test_who_has_no_code_leaves_each_to_whoever_has(self, new_app: NewApp, clock: VirtualClock):
        app = new_app()
        runs = noting(app)
        async with working(app) as runtime:
            await runtime.schedules.add("mine", every("10m", catch_up="all"), "note", by=Actor("ada", "cli"))
            await runtime.scheduler.stop()
            clock.move("45m")
            changing = Schedules("app", runtime.store)
            await changing.edit(
                "mine", every("10m", catch_up="all", max_age="1h"), data={"n": 2}, by=Actor("ada", "cli")
            )
            await runtime.drain()
            assert [row[0] for row in await ledger(runtime, "mine")] == ["fired"] * 4
        assert [run.event.data for run in runs] == [{"n": 2}] * 4

    @pytest.mark.parametrize(
        ("overlap", "became"), [("allow", "fired"), ("queue_all", "fired"), ("replace", "fired"), ("skip", "skipped")]
    )
    async def test_it_waits_for_no_run_that_it_need_not_wait_for(self, app: App, overlap: str, became: str):
        TestOverlap.holding(app, "allow")
        async with working(app) as runtime:
            await runtime.schedules.add("mine", every("10m", overlap=overlap), "note", by=Actor("ada", "cli"))
            await pass_time(runtime, "10m")
            assert isinstance(runtime.clock, VirtualClock)
            runtime.clock.move("10m")
            await runtime.schedules.edit("mine", data=1, by=Actor("ada", "cli"))
            await runtime.drain()
            assert [row[:2] for row in await ledger(runtime, "mine")] == [("fired", "00:10"), (became, "00:20")]

    async def test_one_that_is_removed_accounts_for_all_of_them(self, app: App):
        noting(app)
        async with working(app) as runtime:
            await runtime.schedules.add("mine", cron("* * * * *"), "note", by=Actor("ada", "cli"))
            assert isinstance(runtime.clock, VirtualClock)
            runtime.clock.move("30d")
            await runtime.schedules.remove("mine", by=Actor("ada", "cli"))
            assert sum(row[3] for row in await ledger(runtime, "mine")) == 30 * 24 * 60


async def test_a_name_that_belongs_to_something_that_is_over_stays_its_own(app: App):
    noting(app, at("2026-01-01T00:10"))
    async with working(app) as runtime:
        await app.remind("in 1 minute", "tea", id="tea")
        await app.remind("in 2 hours", "rice", id="rice")
        await pass_time(runtime, "20m")
        await runtime.reminders.cancel("rice", by=Actor("ada", "cli"))
        for name, words in (("note", "a schedule of code"), ("tea", "the id of a reminder"), ("rice", "the id of")):
            with pytest.raises(ConfigError, match=words):
                await runtime.schedules.add(name, every("1h"), "note", by=Actor("ada", "cli"))


async def test_of_two_who_change_different_parts_neither_undoes_the_other(app: App):
    noting(app)
    async with working(app) as runtime:
        await runtime.schedules.add("mine", every("10m"), "note", by=Actor("ada", "cli"))
        await asyncio.gather(
            runtime.schedules.edit("mine", lambda now: edited(now, {"grace": "5m"}), by=Actor("ada", "cli")),
            runtime.schedules.edit("mine", lambda now: edited(now, {"every": "20m"}), by=Actor("bob", "cli")),
            Schedules("app", runtime.store).edit(
                "mine", lambda now: edited(now, {"jitter": "1m"}), by=Actor("eve", "cli")
            ),
        )
        one = await runtime.reader.schedule("mine")
        assert one is not None
        assert (one["rule"], one["options"]["grace"], one["options"]["jitter"]) == ('every("20m", tz="UTC")', 300, 60)


async def test_agents_of_our_own_are_woken_by_no_schedule(app: App):
    noting(app)
    async with working(app) as runtime:
        with pytest.raises(ConfigError, match="built into Wakeful"):
            await runtime.schedules.add("mine", every("10m"), "wakeful.remind", by=Actor("ada", "cli"))


class TestDefinitionsThatCannotBeRead:
    """A zone that this machine does not know, or a kind of a later version."""

    @staticmethod
    async def spoil(runtime: Runtime, name: str) -> None:
        stored = await runtime.schedules.find(name)
        assert stored is not None
        spoiled = stored.definition.replace('"every"', '"moon"')
        change = ChangeSchedule(
            "app", name, "edit", "later", stored, stored.agent, stored.origin, "live", spoiled, stored.done_until
        )
        change.next_at, change.due_at = stored.next_at, stored.due_at
        assert await runtime.store.do(change) is not None

    async def test_it_is_shown_and_watched_and_can_be_given_another_rule(self, app: App):
        runs = noting(app, every("10m"))
        async with working(app) as runtime:
            for name in ("mine", "yours"):
                await runtime.schedules.add(name, every("10m"), "note", by=Actor("ada", "cli"))
                await self.spoil(runtime, name)
            await pass_time(runtime, "10m")
            assert len(runs) == 1  # the others go on
            page = (await runtime.reader.schedules())["schedules"]
            (rule,) = [one["rule"] for one in page if one["name"] == "mine"]
            assert rule.startswith('an unreadable rule (a stored schedule has the kind "moon", which this version')
            assert "by an unreadable rule" in str(await runtime.reader.why("mine"))
            await pass_time(runtime, "1h")
            await runtime.watcher.once()
            open_ones = {one["key"] for one in (await runtime.reader.alarms(state="open"))["alarms"]}
            assert {"schedule/app/mine", "schedule/app/yours"} <= open_ones
            await runtime.schedules.edit("mine", every("10m"), by=Actor("ada", "cli"))
            await runtime.schedules.remove("yours", by=Actor("ada", "cli"))
            assert [row[:2] for row in await ledger(runtime, "yours")] == [("missed", "00:10")]
            await pass_time(runtime, "10m")
            assert [row[0] for row in await ledger(runtime, "mine")] == ["missed", "fired"]
            await runtime.resolver.tick()
            open_ones = {one["key"] for one in (await runtime.reader.alarms(state="open"))["alarms"]}
            assert not {"schedule/app/mine", "schedule/app/yours"} & open_ones

    async def test_code_that_knows_better_begins(self, new_app: NewApp):
        async with working(new_app_with(new_app, [])) as runtime:
            await self.spoil(runtime, "note")
        runs: list[Run] = []
        async with working(new_app_with(new_app, runs)) as runtime:
            await pass_time(runtime, "10m")
            assert len(runs) == 1


async def test_what_a_schedule_carries_and_why_it_was_skipped_is_encrypted(new_app: NewApp, store_url: str):
    app = new_app(encryption=[new_key()])
    runs = noting(app)
    async with working(app) as runtime:
        await runtime.schedules.add(
            "mine", every("10m"), "note", data={"secret": "plum"}, by=Actor("ada", "cli"), note="plum too"
        )
        await pass_time(runtime, "10m")
        await runtime.schedules.pause("mine", by=Actor("plum", "cli"))
        await pass_time(runtime, "10m")
        await runtime.schedules.resume("mine", by=Actor("ada", "cli"))
        assert [row[0] for row in await ledger(runtime, "mine")] == ["fired", "skipped"]
    assert [run.event.data for run in runs] == [{"secret": "plum"}]
    for table, column in (
        ("schedule", "data"),
        ("schedule_change", "note"),
        ("occurrence", "reason"),
        ("event", "envelope"),
    ):
        rows = await query(store_url, f"select {column} from wakeful_{table} where {column} is not null")
        assert rows
        assert not [row for row in rows if "plum" in row[0]], table


def test_names_of_wakefuls_own_agents_are_refused(app: App):
    with pytest.raises(ConfigError, match=r"names that begin with wakeful\. are reserved for Wakeful's own agents"):

        @app.agent(on("go"), name="wakeful.mine")
        async def note(run: Run) -> None: ...
