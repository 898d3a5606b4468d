"""Killed at every boundary of firing: each occurrence still ends in exactly one state, and its work is done once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from support.apps import FOREVER, NewApp
from wakeful import App, Run
from wakeful.clock import VirtualClock
from wakeful.runtime import Runtime
from wakeful.stores.journal import Died
from wakeful.stores.verbs.processes import BuryProcess
from wakeful.stores.verbs.schedules import ChangeSchedule, RecordOccurrences
from wakeful.triggers.every import every

MINUTE = 60_000_000


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(datetime(2026, 1, 1, 0, 0, 30, tzinfo=UTC))


def noting(app: App, done: list[str]) -> App:
    @app.agent(every("1m"), name="note")
    async def note(run: Run) -> None:
        done.append(run.event.id)

    return app


def dying(runtime: Runtime) -> asyncio.Event:
    """Set once nothing of it is stored any more."""
    over, journal = asyncio.Event(), runtime.store.journal
    die = journal.die

    def tell() -> None:
        die()
        over.set()

    journal.die = tell  # type: ignore[method-assign]
    return over


async def ledger(runtime: Runtime) -> list[tuple[str, int, int]]:
    stored = await runtime.schedules.find("note")
    assert stored is not None
    rows = await runtime.database.fetch("occurrences_of_schedule", stored.seq, 2**62, 1000)
    return [(row[1], row[3], row[5]) for row in reversed(rows)]


@pytest.mark.parametrize("point", ["before", "within", "after"])
@pytest.mark.parametrize("kind", [RecordOccurrences, ChangeSchedule])
async def test_whoever_comes_next_goes_on_where_it_stood(
    new_app: NewApp, clock: VirtualClock, point: str, kind: type[Any]
):
    done: list[str] = []
    armed = kind is ChangeSchedule

    def probe(where: str, requests: Sequence[Any]) -> None:
        if armed and where == point and any(type(one) is kind for one in requests):
            raise Died

    doomed = Runtime(noting(new_app(), done), probe=probe, lease=FOREVER)
    await doomed.open(migrate=True)
    over = dying(doomed)
    under_way: asyncio.Future[Any]
    if kind is ChangeSchedule:
        under_way = asyncio.ensure_future(doomed.start())  # it dies while it enters its schedules
    else:
        await doomed.start()
        clock.move("1m")
        armed = True
        under_way = asyncio.ensure_future(doomed.scheduler.tick())
    await over.wait()
    under_way.cancel()  # nobody gets an answer any more
    await asyncio.wait([under_way])
    dead = doomed.membership.process
    await doomed.die()

    async with noting(new_app(), done).running(lease=FOREVER) as runtime:
        await runtime.store.do(BuryProcess(dead, certain=True))
        await runtime.drain()
        clock.move("1m")
        await runtime.drain()
        clock.move("1m")
        await runtime.drain()
        found = await ledger(runtime)
    occurrences = [at for state, at, count in found if state == "fired" and count == 1]
    assert len(occurrences) == len(found), found
    assert occurrences == [occurrences[0] + number * MINUTE for number in range(len(occurrences))], (
        "one after the other, none twice"
    )
    assert len(occurrences) == (2 if kind is ChangeSchedule else 3)
    assert sorted(done) == sorted(set(done))
    assert len(done) == len(occurrences)
