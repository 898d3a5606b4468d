"""DatabaseStore an app: everything of it that waits by itself is closed, in a visible state and with the reason. Nothing is deleted. The
command line and the HTTP API share this.

    mark it retired ──► schedules removed ──► runs cancelled ──► messages discarded ──► alarms resolved

The mark comes first, so that nobody raises an alarm about the rest. Each part is a transition by itself: where the process dies in
between, the same command goes on. What a person must decide stays: dead letters, and effects of which nobody knows whether they
were done. What runs did is not undone: there is no code any more to undo it with.

A process that starts the app brings it back. It registers before it looks at the mark, and here the mark is set before the
processes are looked at: so one of the two sees the other. One that starts later finds the mark and takes it away, and the rest is
left alone.
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
    """Live workers serve the app that is to be retired."""


@dataclass(slots=True)
class Closed:
    """What is closed, or would be."""

    app: str
    workers: int = 0
    retired: dict[str, Any] | None = None  # who retired it before, if somebody did
    schedules: list[str] = field(default_factory=list)
    expectations: list[str] = field(default_factory=list)
    runs: dict[str, int] = field(default_factory=dict)
    messages: int = 0
    alarms: list[str] = field(default_factory=list)
    dead: int = 0  # runs that stay for a person

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


async def refuse_unknown(reads: ReadsDatabase, app: str) -> None:
    """NotFound for an app that never worked on this store."""
    known = await known_apps(reads)
    if app not in known and app not in await retired_apps(reads):
        message = f'no app "{app}" has worked on this store: `wakeful apps` lists them.{did_you_mean(app, known)}'
        raise NotFound(message)


async def plan_retirement(reads: ReadsDatabase, app: str) -> Closed:
    """The open parts of an app. NotFound for an app that never worked on this store."""
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
    """How many live processes serve it."""
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
    """Close everything; what was closed comes back. StillServed while workers serve it, unless `live`."""
    app = plan.app
    if plan.workers and not live:
        raise served(app, plan.workers)
    bulk = Bulk("retire", app, app, says=note)
    new = await store.do(RetireApp(app, by=by, note=note, bulk=bulk))
    if (workers := await _workers(reads, app)) and not live:  # it came in between
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
    """StillServed if its code was started meanwhile, which took the mark away: what is there now is that process's, and not to be closed."""
    if app not in await retired_apps(reads):
        message = (
            f"app {app} was started meanwhile, and is not retired: what was closed until then stays closed (`wakeful runs --state cancelled` lists runs). "
            "If one of its schedules is removed now, start it once more"
        )
        raise StillServed(message)


async def _take_back(store: DatabaseStore) -> None:
    """Runs of processes that are dead are put back, as a worker would: they are cancelled with the others then."""
    for process, left, certain in await other_processes(store.database, ""):
        if certain or left <= 0:
            await store.do(BuryProcess(process, certain=certain))


def served(app: str, workers: int) -> StillServed:
    many = "1 live worker serves" if workers == 1 else f"{workers} live workers serve"
    them = "it" if workers == 1 else "them"
    return StillServed(f"{many} app {app}: stop {them} first, or retire the app all the same with --live")
