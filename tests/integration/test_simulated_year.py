"""A year of random schedules, with both changes of the clock, on a store: every instant is accounted for, and none twice.

Meanwhile the process is restarted, killed and away for days, the clock jumps forwards and back, definitions are edited while instants
are due, schedules are paused, and runs take longer than their interval. At the end the ledger is held against somebody who lived
through the year minute by minute.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from support.apps import FOREVER, NewApp, working
from support.oracle import YEAR, Sample, moment, samples
from support.stores import query
from wakeful import App, Run, VirtualClock
from wakeful.clock import SECOND, to_text
from wakeful.runtime import Runtime
from wakeful.stores.timing import StoredSchedule

FIRST, LAST = moment(YEAR[0]), moment(YEAR[1])
HOUR = 3600 * SECOND
DAY = 24 * HOUR


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(FIRST)


@dataclass
class Stage:
    """A definition, and the moments after which and up to which its instants count."""

    sample: Sample
    after: int
    offset: int
    until: int | None = None

    def instants(self) -> list[int]:
        return (
            [] if self.until is None or self.until <= self.after else self.sample.instants(self.after + 1, self.until)
        )


@dataclass
class Life:
    """One schedule through the year."""

    name: str
    stages: list[Stage] = field(default_factory=list)
    paused: bool = False
    looked: int = 0  # the latest moment at which somebody looked what is due by its definition

    def begin(self, sample: Sample, after: int, offset: int, now: int) -> None:
        self.stages.append(Stage(sample, after, offset))
        self.looked = now

    def expected(self) -> list[int]:
        """Every instant that must be in the ledger."""
        last = self.stages[-1]
        last.until = self.looked - last.offset
        return [instant for stage in self.stages for instant in stage.instants()]


class Year:
    """Somebody who runs an app through the year, and knows what they did to it."""

    def __init__(self, new_app: NewApp, clock: VirtualClock, given: Sequence[Sample], *, seed: int) -> None:
        self.new_app = new_app
        self.clock = clock
        self.dice = random.Random(seed)
        self.spare = list(given[len(given) // 2 :])
        self.lives = [Life(f"schedule-{number}") for number in range(len(given) - len(self.spare))]
        self.given = given

    def app(self) -> App:
        app = self.new_app()

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
            await runtime.schedules.add(life.name, schedule, agent, operator="ada")
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
        """While instants are due, and nobody has looked."""
        verb = self.dice.choice(["edit", "edit", "edit", "pause", "touch"])
        if life.paused and verb == "pause":
            await runtime.schedules.resume(life.name, operator="ada")
            life.paused, life.looked = False, max(life.looked, self.clock.now())
        elif verb == "pause":
            await runtime.schedules.pause(life.name, operator="ada")
            life.paused, life.looked = True, max(life.looked, self.clock.now())
        elif verb == "touch":
            await runtime.schedules.edit(life.name, data={"n": self.dice.random()}, operator="ada")
        else:
            sample = self.dice.choice(self.spare)
            schedule = sample.schedule(**self.options())
            await runtime.schedules.edit(life.name, schedule, operator="ada")
            old, now = life.stages[-1], self.clock.now()
            old.until = max(life.looked, now) - old.offset
            had = old.instants()
            after = max(now - old.offset, had[-1] if had else old.after)  # no moment is lived through twice
            life.begin(sample, after, schedule.offset("app", life.name), now)

    async def end(self, runtime: Runtime) -> None:
        for life in self.lives:
            if life.paused:
                await runtime.schedules.resume(life.name, operator="ada")
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
    """Each span holds as many instants as it says; one begins where the one before it has ended; together they are all."""
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
    assert sorted((row[0], row[1]) for row in rows) == sorted((to_text(instant), run) for instant, run in fired)


async def live_through(year: Year, *, steps: int) -> None:
    """Until the year is over, in one process after the other."""
    killed = False
    while year.clock.now() < LAST:
        async with AsyncExitStack() as stack:
            runtime = await stack.enter_async_context(working(year.app(), lease=SECOND if killed else FOREVER))
            if not year.lives[0].stages:
                await year.begin(runtime)
            await year.live(runtime, year.dice.randrange(1, steps))
            killed = False
        # Nobody is there.
        year.move()
    async with working(year.app()) as runtime:
        await year.end(runtime)


@pytest.mark.parametrize("part", range(4))
async def test_a_year_on_sqlite(sqlite_url: str, clock: VirtualClock, part: int):
    given = list(samples(100, seed=part, rare=True))

    def new_app() -> App:
        return App("app", store=sqlite_url, clock=clock)

    await live_through(Year(new_app, clock, given, seed=part), steps=8)
