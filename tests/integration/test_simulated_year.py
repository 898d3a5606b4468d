"""A year of random schedules, with both changes of the clock, on a store: every occurrence is accounted for, and none twice.

Meanwhile the process is restarted, killed and away for days, the clock jumps forwards and back, definitions are edited while occurrences
are due, schedules are paused, and runs take longer than their interval. At the end the ledger is held against somebody who lived
through the year minute by minute.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from support.apps import FOREVER, NewApp, working
from support.intercepting import Answering, instead
from support.oracle import YEAR, Sample, moment, samples
from support.stores import query
from wakeful import App, Run, VirtualClock, every
from wakeful.clock import SECOND, to_text
from wakeful.errors import StoreUnavailable
from wakeful.runtime import Runtime
from wakeful.stores.journal import Died
from wakeful.stores.request import Actor
from wakeful.stores.timing import StoredSchedule
from wakeful.stores.verbs.processes import BuryProcess
from wakeful.stores.verbs.schedules import RecordOccurrences

FIRST, LAST = moment(YEAR[0]), moment(YEAR[1])
HOUR = 3600 * SECOND
DAY = 24 * HOUR


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(FIRST)


@dataclass
class Stage:
    """A definition, and the moments after which and up to which its occurrences count."""

    sample: Sample
    after: int
    offset: int
    until: int | None = None

    def occurrences(self) -> list[int]:
        return (
            []
            if self.until is None or self.until <= self.after
            else self.sample.occurrences(self.after + 1, self.until)
        )


@dataclass
class Life:
    """One schedule through the year."""

    name: str
    stages: list[Stage] = field(default_factory=list)
    paused: bool = False
    looked: int = 0  # the latest moment at which somebody looked what is due by its definition
    changed: int = 0  # the latest moment up to which a change has settled everything

    def begin(self, sample: Sample, after: int, offset: int, now: int) -> None:
        self.stages.append(Stage(sample, after, offset))
        self.looked, self.changed = now, after

    def touch(self, now: int) -> None:
        """Changed, but not its definition."""
        self.looked = max(self.looked, now)
        self.changed = max(self.changed, now - self.stages[-1].offset)

    def expected(self) -> list[int]:
        """Every occurrence that must be in the ledger."""
        last = self.stages[-1]
        last.until = self.looked - last.offset
        return [occurrence for stage in self.stages for occurrence in stage.occurrences()]


class Year:
    """Somebody who runs an app through the year, and knows what they did to it."""

    def __init__(self, url: str, clock: VirtualClock, given: Sequence[Sample], *, seed: int) -> None:
        self.url = url
        self.clock = clock
        self.dice = random.Random(seed)
        self.spare = list(given[len(given) // 2 :])
        self.lives = [Life(f"schedule-{number}") for number in range(len(given) - len(self.spare))]
        self.given = given

    def app(self) -> App:
        app = App("app", store=self.url, clock=self.clock)

        @app.agent(name="quick")
        async def quick(run: Run) -> None:
            pass

        @app.agent(name="slow")
        async def slow(run: Run) -> None:
            await run.sleep("9h")

        return app

    async def begin(self, runtime: Runtime) -> None:
        for life, sample in zip(self.lives, self.given, strict=False):
            schedule = sample.schedule(**self.options())
            agent = self.dice.choice(["quick", "quick", "slow"])
            await runtime.schedules.add(life.name, schedule, agent, by=Actor("ada", "cli"))
            now = self.clock.now()
            life.begin(sample, now, schedule.offset("app", life.name), now)

    def options(self) -> dict[str, Any]:
        options: dict[str, Any] = {"grace": self.dice.choice(["0s", "5m", "1h", "1d", "40d"])}
        options["catch_up"] = self.dice.choice(["latest", "latest", "none", "all"])
        if options["catch_up"] == "all":
            options |= {"max_count": self.dice.choice([1, 4]), "max_age": self.dice.choice(["1d", "3d"])}
        else:
            options["overlap"] = self.dice.choice(["queue_one", "skip", "queue_all", "replace", "allow"])
        if self.dice.random() < 0.2:
            options["jitter"] = self.dice.choice(["1m", "10m", "3h"])
        return options

    async def look(self, runtime: Runtime) -> None:
        await runtime.drain()
        for life in self.lives:
            if not life.paused:
                life.looked = max(life.looked, self.clock.now())

    def move(self) -> None:
        """Some minutes, hours or days; sometimes back."""
        chance = self.dice.random()
        if chance < 0.08:
            self.clock.move(-timedelta(minutes=self.dice.randrange(1, 3000)))
        elif chance < 0.4:
            self.clock.move(timedelta(minutes=self.dice.randrange(1, 200)))
        else:
            self.clock.move(timedelta(minutes=self.dice.randrange(200, 12_000)))

    async def live(self, runtime: Runtime, steps: int) -> None:
        """Some time under one process."""
        for _ in range(steps):
            self.move()
            for life in self.dice.sample(self.lives, len(self.lives) // 10 or 1):
                await self.change(runtime, life)
            await self.look(runtime)

    async def change(self, runtime: Runtime, life: Life) -> None:
        """While occurrences are due, and nobody has looked."""
        verb = self.dice.choice(["edit", "edit", "edit", "pause", "touch"])
        if life.paused and verb == "pause":
            await runtime.schedules.resume(life.name, by=Actor("ada", "cli"))
            life.paused, life.looked = False, max(life.looked, self.clock.now())
        elif verb == "pause":
            await runtime.schedules.pause(life.name, by=Actor("ada", "cli"))
            life.paused = True
            life.touch(self.clock.now())
        elif verb == "touch":
            await runtime.schedules.edit(life.name, data={"n": self.dice.random()}, by=Actor("ada", "cli"))
            life.touch(self.clock.now())
        else:
            sample = self.dice.choice(self.spare)
            schedule = sample.schedule(**self.options())
            await runtime.schedules.edit(life.name, schedule, by=Actor("ada", "cli"))
            old, now = life.stages[-1], self.clock.now()
            old.until = max(life.looked, now) - old.offset
            had = old.occurrences()
            after = max(now - old.offset, life.changed, *had[-1:])  # no moment is lived through twice
            life.begin(sample, after, schedule.offset("app", life.name), now)

    async def end(self, runtime: Runtime) -> None:
        for life in self.lives:
            if life.paused:
                await runtime.schedules.resume(life.name, by=Actor("ada", "cli"))
                life.paused = False
        await self.look(runtime)
        for life in self.lives:
            await check(runtime, life)


async def check(runtime: Runtime, life: Life) -> None:
    stored = await runtime.schedules.find(life.name)
    assert stored is not None
    rows = await runtime.database.fetch("occurrences_of_schedule", stored.seq, 2**62, 1_000_000)
    spans = [(row[3], row[4], row[5], row[1]) for row in rows]
    if stored.queued is not None:
        spans.append((stored.queued.first, stored.queued.last, stored.queued.count, "queued"))
    refuse_unaccounted(life, sorted(spans), life.expected())
    await refuse_other_runs(runtime, stored, [(row[3], row[7]) for row in rows if row[1] in {"fired", "superseded"}])


def refuse_unaccounted(life: Life, spans: list[tuple[int, int, int, str]], expected: list[int]) -> None:
    """Each span holds as many occurrences as it says; one begins where the one before it has ended; together they are all."""
    reached = 0
    for number, (first, last, count, _) in enumerate(spans):
        found = expected[reached : reached + count]
        assert (found[:1], found[-1:], len(found)) == ([first], [last], count), told(
            life, spans[: number + 1], expected[reached:]
        )
        reached += count
    assert expected[reached:] == [], told(life, spans, expected[reached:])


def told(life: Life, spans: list[tuple[int, int, int, str]], expected: list[int]) -> str:
    """Where the ledger and the year part."""
    stages = [f"  {one.sample} after {to_text(one.after)} until {to_text(one.until)}" for one in life.stages]
    ledger = [f"  {state} {count}: {to_text(first)} to {to_text(last)}" for first, last, count, state in spans[-4:]]
    return "\n".join(
        [life.name, *stages, "ledger", *ledger, "expected", *(f"  {to_text(one)}" for one in expected[:4])]
    )


async def refuse_other_runs(runtime: Runtime, stored: StoredSchedule, fired: list[tuple[int, str]]) -> None:
    """What was fired has the run of its own event, and no other event had one."""
    source = f"/app/schedules/{stored.name}"
    rows = await query(
        runtime.url,
        f"""select event.id, run.id from wakeful_event event join wakeful_run run on run.event_seq = event.seq
        where event.source = '{source}'""",
    )
    assert sorted((row[0], row[1]) for row in rows) == sorted((to_text(occurrence), run) for occurrence, run in fired)


async def live_through(year: Year, *, steps: int) -> None:
    """Until the year is over, in one process after the other. Some are killed while they fire, and all are away for a while."""
    dead: str | None = None
    while year.clock.now() < LAST:
        runtime = Runtime(year.app(), lease=FOREVER)
        await runtime.open()
        await runtime.start()
        if dead is not None:
            await runtime.store.do(BuryProcess(dead, certain=True))
        if not year.lives[0].stages:
            await year.begin(runtime)
        await year.look(runtime)
        await year.live(runtime, year.dice.randrange(1, steps))
        if year.dice.random() < 0.3:
            # Whoever comes next looks at the same moment: what was not stored is due then.
            dead = await kill(year, runtime)
        else:
            dead = None
            await runtime.stop()
            year.move()
    async with working(year.app()) as runtime:
        await year.end(runtime)


async def kill(year: Year, runtime: Runtime) -> str:
    """While it fires. What it had stored by then nobody knows."""
    year.move()
    firing = asyncio.create_task(runtime.scheduler.tick())
    for _ in range(year.dice.randrange(60)):
        await asyncio.sleep(0)
    process = runtime.membership.process
    await runtime.die()
    firing.cancel()
    with suppress(Died, StoreUnavailable, asyncio.CancelledError):
        await firing
    return process


@pytest.mark.parametrize("part", range(4))
async def test_a_year_of_fifty_random_schedules(sqlite_url: str, clock: VirtualClock, part: int):
    """Four times fifty."""
    given = list(samples(100, seed=part, rare=True))
    await live_through(Year(sqlite_url, clock, given, seed=part), steps=12)


@pytest.mark.postgres
async def test_a_year_on_postgresql(postgres_url: str, clock: VirtualClock):
    given = list(samples(20, seed=7, rare=True))
    await live_through(Year(postgres_url, clock, given, seed=7), steps=20)


class Together:
    """Nodes that all see what is due before any of them has recorded it."""

    def __init__(self, nodes: Sequence[Runtime], monkeypatch: pytest.MonkeyPatch) -> None:
        self.nodes = nodes
        self._seen = asyncio.Barrier(len(nodes))
        for node in nodes:
            monkeypatch.setattr(node.scheduler, "_store", Answering(node.store, "due_schedules", self._wait_for_all))

    async def _wait_for_all(self, rows: list[Any]) -> list[Any]:
        await self._seen.wait()
        return rows

    async def fire(self) -> None:
        await asyncio.gather(*(node.scheduler.tick() for node in self.nodes))


async def test_three_nodes_race_for_each_instant_and_one_fires_it(
    new_app: NewApp, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
):
    given = list(samples(24, seed=11, rare=True))
    async with AsyncExitStack() as stack:
        nodes = []
        for _ in range(3):
            app = new_app()
            app.agent(name="quick")(nothing)
            nodes.append(await stack.enter_async_context(working(app)))
        for node in nodes:
            await node.scheduler.stop()
        lives = [Life(f"schedule-{number}") for number in range(len(given))]
        for life, sample in zip(lives, given, strict=True):
            schedule = sample.schedule(overlap="allow", grace="40d")
            await nodes[0].schedules.add(life.name, schedule, "quick", by=Actor("ada", "cli"))
            life.begin(sample, clock.now(), 0, clock.now())
        together = Together(nodes, monkeypatch)
        dice = random.Random(11)
        for _ in range(40):
            clock.move(timedelta(minutes=dice.randrange(10, 3000)))
            await together.fire()
            for life in lives:
                life.looked = clock.now()
        assert sum(node.scheduler.fired for node in nodes) > 100
        for life in lives:
            await check(nodes[0], life)


async def nothing(run: Run) -> None:
    pass


async def test_a_node_that_saw_the_older_definition_fires_nothing(
    new_app: NewApp, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
):
    """It has read what is due; then the newer one comes; then it wants to store what it made of the older one."""
    old_app, new = new_app(), new_app()
    old_app.agent(every("10m", overlap="allow"), name="note")(nothing)
    new.agent(every("15m", overlap="allow"), name="note")(nothing)
    async with working(old_app) as old:
        await old.scheduler.stop()
        clock.move("20m")
        read = asyncio.Event()
        entered = asyncio.Event()
        record = old.store.do
        answers: list[Any] = []

        async def record_late(request: Any) -> Any:
            read.set()
            await entered.wait()
            answers.append(await record(request))
            return answers[-1]

        monkeypatch.setattr(old.store, "do", instead(old.store, RecordOccurrences, record_late))
        late = asyncio.create_task(old.scheduler.tick())
        await read.wait()
        async with working(new) as newer:
            entered.set()
            await late
            assert answers[0] is None
            await newer.drain()
            clock.move("10m")
            await old.scheduler.tick()
            await newer.drain()
            stored = await newer.schedules.find("note")
            assert stored is not None
            rows = await newer.database.fetch("occurrences_of_schedule", stored.seq, 2**62, 100)
            found = [
                (row[1], (row[3] - FIRST) // (60 * SECOND), (row[4] - FIRST) // (60 * SECOND), row[5]) for row in rows
            ]
            # Ten and twenty by the old one, of which the new one knows nothing; from then on every fifteen minutes.
            assert found[::-1] == [("coalesced", 10, 10, 1), ("fired", 20, 20, 1), ("fired", 30, 30, 1)]
