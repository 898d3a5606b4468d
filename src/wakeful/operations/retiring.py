"""Retiring an app: all its open work is closed, in a visible state and with the reason. Nothing is deleted. The command line and
the HTTP API share this.

    mark it retired ──► schedules removed ──► runs cancelled ──► deliveries discarded ──► alarms resolved

The mark comes first, so that no alarm is raised about the rest. Each part is a transition of its own: if the process dies in
between, the same command continues. Dead letters and effects with an unknown outcome stay, because a person must decide. Effects
are not undone, because the app's code is no longer available to undo them.

A process that starts the app reinstates it. It registers before it reads the mark, and here the mark is set before the processes
are read, so one of the two always sees the other. A process that starts later finds the mark and removes it; nothing more is closed
then.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from wakeful.errors import NotFound, WakefulError, did_you_mean
from wakeful.stores.known import known_apps, retired_apps, unfinished
from wakeful.stores.reads import NOW, ReadsDatabase
from wakeful.stores.request import Actor, Bulk
from wakeful.stores.verbs.alarms import ChangeAlarm
from wakeful.stores.verbs.cancel import CancelRun
from wakeful.stores.verbs.outbox import RedoDelivery
from wakeful.stores.verbs.processes import BuryProcess, other_processes
from wakeful.stores.verbs.retiring import BringBackApp, RetireApp
from wakeful.triggers.schedules import Schedules
from wakeful.watch.listing import listed

if TYPE_CHECKING:
    from wakeful.stores.store import DatabaseStore

PAGE = 200
CLOSABLE = ("ready", "waiting", "running", "parked", "held")


class StillServed(WakefulError):
    """Raised if live workers serve the app that is to be retired."""


@dataclass(slots=True)
class Closed:
    """What was closed, or would be."""

    app: str
    workers: int = 0
    retired: dict[str, Any] | None = None  # an earlier retirement, if any
    schedules: list[str] = field(default_factory=list)
    expectations: list[str] = field(default_factory=list)
    runs: dict[str, int] = field(default_factory=dict)
    messages: int = 0
    alarms: list[str] = field(default_factory=list)
    dead: int = 0  # dead letters, which are kept

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


async def refuse_unknown(reads: ReadsDatabase, app: str) -> None:
    """Raise NotFound for an app that has never used this store."""
    known = await known_apps(reads)
    if app not in known and app not in await retired_apps(reads):
        message = f'no app "{app}" has used this store: `wakeful apps` lists them.{did_you_mean(app, known)}'
        raise NotFound(message)


async def plan_retirement(reads: ReadsDatabase, app: str) -> Closed:
    """The open work of an app. Raises NotFound for an app that has never used this store."""
    await refuse_unknown(reads, app)
    runs = await unfinished(reads, app)
    expected = await listed(reads.database)
    return Closed(
        app,
        await _workers(reads, app),
        (await retired_apps(reads)).get(app),
        await _names(reads, "schedules_to_close", app),
        [one["name"] for one in expected if one["app"] == app and one["state"] != "excused"],
        {state: runs[state] for state in CLOSABLE if state in runs},
        sum([len(page) async for page in _pages(reads, "deliveries_to_close", app)]),
        await _names(reads, "alarms_to_close", app),
        runs.get("dead", 0),
    )


async def _workers(reads: ReadsDatabase, app: str) -> int:
    """How many live processes serve the app."""
    return next((count for name, count in await reads.fetch("workers_of_apps", NOW) if name == app), 0)


async def _names(reads: ReadsDatabase, query: str, app: str) -> list[str]:
    return [row[0] for row in await reads.fetch(query, app)]


async def _pages(reads: ReadsDatabase, query: str, app: str) -> AsyncIterator[list[str]]:
    """The ids of a query, page by page."""
    after = 0
    while rows := await reads.fetch(query, app, after, PAGE):
        after = rows[-1][0]
        yield [row[1] for row in rows]


async def retire(
    reads: ReadsDatabase, store: DatabaseStore, plan: Closed, *, by: Actor, note: str | None, live: bool = False
) -> Closed:
    """Close all open work and return what was closed. Raises StillServed while workers serve the app, unless `live`."""
    app = plan.app
    if plan.workers and not live:
        raise served(app, plan.workers)
    bulk = Bulk("retire", app, app, says=note)
    new = await store.do(RetireApp(app, by=by, note=note, bulk=bulk))
    if (workers := await _workers(reads, app)) and not live:  # a worker started in between
        if new:
            await store.do(BringBackApp(app, by=by, note="a worker has just started"))
        raise served(app, workers)
    because = f"app {app} was retired" + (f": {note}" if note else "")
    done = Closed(app, workers, plan.retired, expectations=plan.expectations, dead=plan.dead)
    schedules = Schedules(app, store)
    for name in await _names(reads, "schedules_to_close", app):
        await _go_on(reads, app)
        await schedules.remove(name, by=by, note=because, bulk=bulk)
        done.schedules.append(name)
    await _take_back(store)
    async for page in _pages(reads, "runs_to_close", app):
        await _go_on(reads, app)
        requests = [CancelRun(identifier, undo=False, by=by, note=because, bulk=bulk) for identifier in page]
        for cancelled in await asyncio.gather(*map(store.do, requests)):
            if cancelled is not None and cancelled.refused is None:
                done.runs[cancelled.was] = done.runs.get(cancelled.was, 0) + 1
    async for page in _pages(reads, "deliveries_to_close", app):
        await _go_on(reads, app)
        discards = [RedoDelivery(one, discard=True, waiting=True, by=by, note=because, bulk=bulk) for one in page]
        done.messages += sum(was == "pending" for was in await asyncio.gather(*map(store.do, discards)))
    for key in await _names(reads, "alarms_to_close", app):
        await _go_on(reads, app)
        await store.do(ChangeAlarm(key, "resolve", by=by, note=because, bulk=bulk))
        done.alarms.append(key)
    await _go_on(reads, app)
    return done


async def _go_on(reads: ReadsDatabase, app: str) -> None:
    """Raise StillServed if the app was started meanwhile, which removed the mark: its work now belongs to that process."""
    if app not in await retired_apps(reads):
        message = (
            f"app {app} was started meanwhile and is not retired: work closed until then stays closed (`wakeful runs --state cancelled` lists runs). "
            "If one of its schedules is missing now, restart the app"
        )
        raise StillServed(message)


async def _take_back(store: DatabaseStore) -> None:
    """Release the runs of dead processes, as a worker would, so that they are cancelled with the others."""
    for process, left, certain in await other_processes(store.database, ""):
        if certain or left <= 0:
            await store.do(BuryProcess(process, certain=certain))


def served(app: str, workers: int) -> StillServed:
    many = "1 live worker serves" if workers == 1 else f"{workers} live workers serve"
    them = "it" if workers == 1 else "them"
    return StillServed(f"{many} app {app}: stop {them} first, or retire the app anyway with --live")
