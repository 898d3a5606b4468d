"""Backfill, on both stores: each occurrence once, whoever did it before, and behind everything else."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from support.apps import FOREVER, NewApp, pass_time, working
from support.intercepting import Answering
from wakeful import App, Run, on
from wakeful.clock import VirtualClock, from_datetime, to_text
from wakeful.errors import NotFound
from wakeful.model import Decision
from wakeful.operations import backfill as filling
from wakeful.operations.backfill import Backfill, BackfillPlan, Outcome, fill, plan_backfill, prepare
from wakeful.operations.pace import Pace
from wakeful.policy.decide import ALLOWED
from wakeful.runtime import Runtime
from wakeful.stores.journal import Died
from wakeful.stores.request import Actor
from wakeful.stores.verbs.backfill import FillOccurrences
from wakeful.stores.verbs.schedules import next_schedule
from wakeful.testing.waiting import until
from wakeful.triggers.every import every
from wakeful.triggers.schedule import Schedule

START = datetime(2026, 1, 1, 12, 0, 30, tzinfo=UTC)


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(START)


def noting(app: App, *triggers: Schedule, **options: Any) -> list[Run]:
    runs: list[Run] = []

    @app.agent(*triggers, on("go"), name="note", **options)
    async def note(run: Run) -> None:
        runs.append(run)

    return runs


def hour(number: int, minute: int = 0) -> int:
    return from_datetime(datetime(2026, 1, 1, number, minute, tzinfo=UTC))


def shown(runs: list[Run]) -> list[str]:
    return [run.scheduled_for.strftime("%H:%M") for run in runs if run.scheduled_for is not None]


async def chosen(runtime: Runtime, since: int, until_: int, name: str = "note") -> Backfill:
    now, _ = await next_schedule(runtime.store.database, "app")
    return prepare(await runtime.schedules.get(name), since, until_, now=now)


async def go(runtime: Runtime, one: Backfill, **options: Any) -> tuple[BackfillPlan, Outcome]:
    plan = await plan_backfill(runtime.store, one)
    options.setdefault("by", Actor("ada", "code"))
    return plan, await fill(runtime.store, one, plan, runtime.scheduler.arrival, **options)


async def ledger(runtime: Runtime, name: str = "note") -> list[tuple[Any, ...]]:
    stored = await runtime.schedules.get(name)
    rows = await runtime.database.fetch("occurrences_of_schedule", stored.seq, 2**62, 1000)
    texts = [(row[1], row[2], (to_text(row[3]) or "")[11:16], (to_text(row[4]) or "")[11:16], row[9]) for row in rows]
    return sorted(texts, key=lambda row: (row[2], row[3], row[0]))


async def test_instants_before_it_was_there_are_done(app: App):
    runs = noting(app, every("1h"))
    async with working(app) as runtime:
        plan, outcome = await go(runtime, await chosen(runtime, hour(7), hour(10)), note="the outage")
        await runtime.drain()
        assert (plan.occurrences, plan.new, plan.done, plan.to_come) == (3, 3, 0, 0)
        assert (plan.first, plan.last) == (hour(7), hour(9))
        assert (outcome.made, outcome.done, outcome.denied) == (3, 0, 0)
        reason = "backfill by ada: the outage"
        assert await ledger(runtime) == [
            ("fired", reason, "07:00", "07:00", 0),
            ("fired", reason, "08:00", "08:00", 0),
            ("fired", reason, "09:00", "09:00", 0),
        ]
    assert shown(runs) == ["07:00", "08:00", "09:00"]
    assert runs[0].interval == (datetime(2026, 1, 1, 6, tzinfo=UTC), datetime(2026, 1, 1, 7, tzinfo=UTC))


async def test_what_was_missed_skipped_or_coalesced_is_counted_on_its_row(new_app: NewApp, clock: VirtualClock):
    trigger = every("10m", catch_up="none")
    app = new_app()
    noting(app, trigger)
    async with working(app):
        pass
    clock.move("45m")
    app = new_app()
    runs = noting(app, trigger)
    async with working(app) as runtime:
        await runtime.drain()
        before = await ledger(runtime)
        assert [(row[0], row[2], row[3]) for row in before] == [("missed", "12:10", "12:40")]
        plan, outcome = await go(runtime, await chosen(runtime, hour(12, 20), hour(12, 31)))
        await runtime.drain()
        assert (plan.new, outcome.made) == (2, 2)
        after = await ledger(runtime)
    assert [(row[0], row[2], row[3], row[4]) for row in after] == [
        ("missed", "12:10", "12:40", 2),
        ("fired", "12:20", "12:20", 0),
        ("fired", "12:30", "12:30", 0),
    ]
    assert shown(runs) == ["12:20", "12:30"]


async def test_doing_it_twice_does_it_once(app: App):
    runs = noting(app, every("1h"))
    async with working(app) as runtime:
        await go(runtime, await chosen(runtime, hour(7), hour(9)))
        plan, outcome = await go(runtime, await chosen(runtime, hour(6), hour(10)))
        await runtime.drain()
        assert (plan.occurrences, plan.done, plan.new, outcome.made) == (4, 2, 2, 2)
    assert sorted(shown(runs)) == ["06:00", "07:00", "08:00", "09:00"]


async def test_two_at_once_do_each_instant_once(new_app: NewApp):
    """Both have planned before either begins: what the second brings is there already."""
    app = new_app()
    runs = noting(app, every("1h"))
    async with working(app) as runtime, working(new_app(), worker=False) as other:
        one = await chosen(runtime, hour(2), hour(10))
        plan = await plan_backfill(runtime.store, one)
        outcomes = await asyncio.gather(
            fill(runtime.store, one, plan, runtime.scheduler.arrival, by=Actor("ada", "code")),
            fill(other.store, one, plan, runtime.scheduler.arrival, by=Actor("bob", "code")),
        )
        await runtime.drain()
        assert sum(one.made for one in outcomes) == 8
        assert len(await ledger(runtime)) == 8
    assert len(runs) == 8


async def test_a_worker_elsewhere_hears_of_it(new_app: NewApp):
    app, outside = new_app(), new_app()
    runs = noting(app, every("1h"))
    noting(outside, every("1h"))
    async with working(app), working(outside, worker=False) as runtime:
        await go(runtime, await chosen(runtime, hour(7), hour(10)))
        await until(lambda: len(runs) == 3)


@pytest.mark.parametrize("point", ["before", "within", "after"])
async def test_whoever_dies_in_the_middle_has_done_a_batch_or_not(new_app: NewApp, point: str):
    """Died at each side of the commit: the same command again does what is left, and no occurrence twice."""
    batches: list[int] = []  # the second has as many occurrences as runs of the first were done by then

    def probe(where: str, requests: Sequence[Any]) -> None:
        filled = [len(one.occurrences) for one in requests if type(one) is FillOccurrences]
        if where == "before":
            batches.extend(filled)
        if filled and where == point and len(batches) == 2:
            raise Died

    app = new_app()
    runs = noting(app, every("1h"))
    doomed = Runtime(new_app(), probe=probe, lease=FOREVER)
    await doomed.open(migrate=True)
    async with working(app) as runtime:
        one = await chosen(runtime, hour(0), hour(12))
        plan = await plan_backfill(runtime.store, one)
        dying = asyncio.ensure_future(fill(doomed.store, one, plan, runtime.scheduler.arrival, by=Actor("ada", "code")))
        await until(doomed.store.journal.is_dead)
        dying.cancel()
        await asyncio.wait([dying])
        await doomed.die()
        before, after = await go(runtime, one)
        await runtime.drain()
        assert batches[0] == filling.AHEAD
        assert before.done == (sum(batches) if point == "after" else filling.AHEAD)
        assert after.made == 12 - before.done
        assert [row[0] for row in await ledger(runtime)] == ["fired"] * 12
    assert len(set(shown(runs))) == len(runs) == 12


async def test_what_the_schedule_has_not_settled_is_left_to_it(app: App, clock: VirtualClock):
    runs = noting(app, every("1h"))
    async with working(app, worker=False) as runtime:
        await runtime.schedules.enter(app.agents)
        clock.move("1h")  # 13:00 is due, and nobody has looked yet
        plan, outcome = await go(runtime, await chosen(runtime, hour(11), hour(16)))
        assert (plan.occurrences, plan.to_come, outcome.made) == (2, 3, 2)
        await runtime.start()
        await runtime.drain()
        assert sorted(shown(runs)) == ["11:00", "12:00", "13:00"]
        fired = [row[2] for row in await ledger(runtime) if row[0] == "fired"]
    assert fired == ["11:00", "12:00", "13:00"]


async def test_one_that_was_fired_on_time_is_done_even_when_its_event_is_gone(app: App, clock: VirtualClock):
    runs = noting(app, every("1h"))
    async with working(app) as runtime:
        await pass_time(runtime, "1h")
        assert shown(runs) == ["13:00"]
        await go(runtime, await chosen(runtime, hour(10), hour(14)))
        await runtime.drain()
        assert sorted(shown(runs)) == ["10:00", "11:00", "12:00", "13:00"]
        one = await chosen(runtime, hour(10), hour(14))

        async def removed(_: list[Any]) -> list[Any]:
            return []

        events_removed: Any = Answering(runtime.store, "known_events", removed)
        known = await plan_backfill(events_removed, one)
    assert (known.done, known.new) == (4, 0)


async def test_it_can_be_stopped_and_goes_on(app: App):
    runs = noting(app, every("1h"))
    stop = asyncio.Event()
    async with working(app) as runtime:
        one = await chosen(runtime, hour(0), hour(12))
        seen: list[int] = []

        def progress(done: int, of: int) -> None:
            assert of == 12
            seen.append(done)
            stop.set()

        _, outcome = await go(runtime, one, pace=Pace(None, stop), progress=progress)
        assert seen == [outcome.made]
        assert 0 < outcome.made < 12
        plan, rest = await go(runtime, one)
        assert plan.done == outcome.made
        assert rest.made == 12 - outcome.made
        await runtime.drain()
    assert len(runs) == 12


async def test_only_a_few_wait_at_a_time_and_others_pass(app: App, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(filling, "LOOK_EVERY", 0.01)
    gate = asyncio.Event()
    order: list[str] = []

    @app.agent(every("1h"), on("go"), name="note", concurrency=1)
    async def note(run: Run) -> None:
        order.append(run.event.type)
        await gate.wait()

    async with working(app) as runtime:
        one = await chosen(runtime, hour(0), hour(12))
        plan = await plan_backfill(runtime.store, one)
        filling_it = asyncio.create_task(
            fill(runtime.store, one, plan, runtime.scheduler.arrival, by=Actor("ada", "code"), pace=Pace())
        )
        await until(lambda: order)

        async def waiting() -> int:
            return (await runtime.reader.counts()).get("ready", 0)

        await until(lambda: full(waiting))
        await app.emit("go")
        gate.set()
        outcome = await filling_it
        await runtime.drain()
    assert outcome.made == 12
    assert order.index("go") <= 1 + filling.AHEAD
    assert len(order) == 13


async def full(waiting: Any) -> bool:
    return bool(await waiting() == filling.AHEAD)


@pytest.mark.parametrize("overlap", ["queue_one", "allow"])
async def test_they_go_one_after_the_other_unless_the_schedule_says_otherwise(app: App, overlap: str):
    most = now = 0
    gate = asyncio.Event()

    @app.agent(every("1h", overlap=overlap), name="note")
    async def note(run: Run) -> None:
        nonlocal most, now
        now += 1
        most = max(most, now)
        if overlap == "allow" and now == 3:
            gate.set()
        if overlap == "allow":
            await gate.wait()
        now -= 1

    async with working(app) as runtime:
        await go(runtime, await chosen(runtime, hour(7), hour(10)))
        await runtime.drain()
    assert most == (3 if overlap == "allow" else 1)


@pytest.mark.parametrize("overlap", ["skip", "replace"])
async def test_what_is_fired_on_time_is_neither_skipped_nor_does_it_replace_them(app: App, overlap: str):
    reached, gate = asyncio.Event(), asyncio.Event()
    runs: list[Run] = []

    @app.agent(every("1h", overlap=overlap), name="note", overlap=overlap)
    async def note(run: Run) -> None:
        runs.append(run)
        reached.set()
        if len(runs) == 1:
            await gate.wait()

    async with working(app) as runtime:
        await go(runtime, await chosen(runtime, hour(7), hour(10)))
        await reached.wait()
        runtime.clock.move("1h")  # type: ignore[attr-defined]
        await runtime.scheduler.tick()
        await until(lambda: "13:00" in shown(runs))
        gate.set()
        await runtime.drain()
    assert sorted(shown(runs)) == ["07:00", "08:00", "09:00", "13:00"]


async def test_what_had_expired_is_wanted_now(app: App):
    runs = noting(app, every("1h", expires="5m"), expires="1h")
    async with working(app) as runtime:
        await go(runtime, await chosen(runtime, hour(7), hour(8)))
        runtime.clock.move("1s")  # type: ignore[attr-defined]
        await runtime.drain()
    assert shown(runs) == ["07:00"]


async def test_they_have_the_lowest_priority(app: App):
    noting(app, every("1h"), priority=0)
    async with working(app, worker=False) as runtime:
        await runtime.schedules.enter(app.agents)
        _, outcome = await go(runtime, await chosen(runtime, hour(7), hour(8)))
        assert outcome.made == 1
        (run,) = (await runtime.reader.runs())["runs"]
        assert (await runtime.reader.run(run["id"]) or {})["priority"] == -10


async def test_what_policy_denies_is_written_down(new_app: NewApp):
    def no_eights(facts: Any) -> Decision:
        held = getattr(facts, "event", None)
        return Decision("deny", "eights", "not at eight") if held is not None and "T08" in held.id else ALLOWED

    app = new_app(rules=(no_eights,))
    runs = noting(app, every("1h"))
    async with working(app) as runtime:
        _, outcome = await go(runtime, await chosen(runtime, hour(7), hour(10)))
        await runtime.drain()
        assert (outcome.made, outcome.denied) == (2, 1)
        rows = await ledger(runtime)
        again, _ = await go(runtime, await chosen(runtime, hour(7), hour(10)))
        assert again.new == 0
    assert [row for row in rows if row[0] == "skipped"] == [
        ("skipped", "backfill by ada; denied: eights: not at eight", "08:00", "08:00", 0)
    ]
    assert shown(runs) == ["07:00", "09:00"]


async def test_why_tells_that_it_was_a_backfill(app: App):
    noting(app, every("1h"))
    async with working(app) as runtime:
        await go(runtime, await chosen(runtime, hour(7), hour(8)))
        await runtime.drain()
        (run,) = (await runtime.reader.runs())["runs"]
        story = " ".join((await runtime.reader.why(run["id"]) or {})["story"])
    assert "backfill by ada" in story


async def test_the_schedule_goes_on_as_if_nothing_had_been(app: App):
    runs = noting(app, every("1h"))
    async with working(app) as runtime:
        before = await runtime.schedules.get("note")
        await go(runtime, await chosen(runtime, hour(7), hour(10)))
        await runtime.drain()
        after = await runtime.schedules.get("note")
        assert (after.next_at, after.last_at, after.last_run) == (before.next_at, before.last_at, before.last_run)
        await pass_time(runtime, "1h")
    assert max(shown(runs)) == "13:00"


class TestChoosing:
    async def test_the_only_one_is_meant(self, app: App):
        noting(app, every("1h"))
        async with working(app, worker=False) as runtime:
            await runtime.schedules.enter(app.agents)
            assert filling.choose(await runtime.schedules.all(), "note", None).name == "note"

    async def test_of_several_one_must_be_named(self, app: App):
        noting(app, every("1h"), every("2h", name="slow"))
        async with working(app, worker=False) as runtime:
            await runtime.schedules.enter(app.agents)
            stored = await runtime.schedules.all()
        with pytest.raises(NotFound, match="note, slow: choose one with --schedule NAME"):
            filling.choose(stored, "note", None)
        assert filling.choose(stored, "note", "slow").name == "slow"
        with pytest.raises(NotFound, match='Did you mean "slow"'):
            filling.choose(stored, "note", "slwo")

    async def test_one_without_a_schedule(self, app: App):
        with pytest.raises(NotFound, match="agent note has no schedule"):
            filling.choose([], "note", None)
