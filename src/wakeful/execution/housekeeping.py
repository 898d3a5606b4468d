"""The housekeeper: removes what is over and older than its retention time, a little at a time.

Every worker has one, and none is the leader: each removal locks its rows and checks them again. It reads in small
windows, removes in small transactions, and rests in between, so that runs are not delayed.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

from wakeful.clock import Microseconds, duration
from wakeful.errors import StoreUnavailable
from wakeful.service import Service
from wakeful.stores.keeping import Keeper
from wakeful.stores.verbs.keeping import Family, RemoveTraces
from wakeful.stores.verbs.quarantine_room import CutQuarantine
from wakeful.stores.verbs.sources import ForgetOld

EVERY = 600.0
FIRST_AFTER = 60.0
PAUSE = 0.005
WINDOW = 2_000  # rows that are read at once
WINDOWS_AT_A_TIME = 500
ARCHIVED_AT_A_TIME = 500  # families that are read, written and synced together
FAMILIES_AT_A_TIME = 100  # families removed in one transaction: other writers wait that long
ROWS_AT_A_TIME = 500
DEDUPLICATION = duration("90d")
PROCESSES_ARE_KEPT = duration("7d")
CHAINS_ARE_KEPT = duration("7d")
USES_ARE_KEPT = duration("35d")  # of counted rules: a policy with a longer count may come back
SWEEP_EVERY = duration("6h")
BLOBS_ARE_NEW = duration("1h")
BLOBS_AT_A_TIME = 10_000
ITEMS_OUTLIVE_EVENTS = duration("1h")

Archive = Callable[[Sequence[Family]], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Retention:
    """How long finished things are kept: by agent, with a default for other agents and for events. None: for ever."""

    app: str
    default: Microseconds | None = None
    agents: Mapping[str, Microseconds] = field(default_factory=dict)
    deduplication: Microseconds = DEDUPLICATION
    quarantine: int | None = None  # limit in bytes for unverified inputs
    quarantine_for: Microseconds | None = None  # how long they are kept
    operations: Microseconds | None = None  # how long the acts of people are kept

    def of(self, agent: str) -> Microseconds | None:
        return self.agents.get(agent, self.default)

    @property
    def shortest(self) -> Microseconds | None:
        spans = [*self.agents.values(), *([] if self.default is None else [self.default])]
        return min(spans) if spans else None


class Housekeeper(Service):
    """Removes what is over and old."""

    name = "housekeeper"

    def __init__(
        self,
        keeper: Keeper,
        retention: Retention,
        *,
        archive: Archive | None = None,
        trouble: Callable[[str], None] = lambda _: None,
        pause: float = PAUSE,
        counted_for: Callable[[], Microseconds] = lambda: 0,
    ) -> None:
        """`counted_for`: the longest time for which a rule of the policy in force counts uses."""
        super().__init__()
        self._keeper = keeper
        self._retention = retention
        self._archive = archive
        self._trouble = trouble
        self._pause = pause
        self._counted_for = counted_for
        self._cursors: dict[str, int] = {}
        self._rested = False
        self._swept: Microseconds | None = None
        self._suspects: set[str] | None = None
        self._blobs_after = ""

    async def run_once(self) -> float | None:
        """Go through everything once. The first time only after a rest: a starting process has more urgent work."""
        if asyncio.current_task() is self._task and not self._rested:
            self._rested = True
            return FIRST_AFTER
        now = await self._keeper.time()
        await self._remove_runs(now)
        await self._remove_events(now)
        await self._remove_operations(now)
        await self._remove_rest(now)
        await self._remove_uses(now)
        await self._remove_occurrences(now)
        await self._forget_of_sources(now)
        await self._cut_quarantine(now)
        await self._sweep_blobs(now)
        return EVERY * random.uniform(0.75, 1.25)

    async def _remove_runs(self, now: Microseconds) -> None:
        shortest = self._retention.shortest
        if shortest is None:
            return
        removed = 0
        async for after, upto in self._windows("runs"):
            old = await self._keeper.old_families(
                self._retention.app, after, upto, now - shortest, wanted=partial(self._until, now)
            )
            families = [family for _, family in old]
            for start in range(0, len(families), ARCHIVED_AT_A_TIME):
                gone = await self._remove(families[start : start + ARCHIVED_AT_A_TIME])
                if gone is None:
                    return
                removed += gone
        if removed:
            self.log.info("removed runs older than their retention time", runs=removed)

    def _until(self, now: Microseconds, agent: str, finished: Microseconds) -> Microseconds | None:
        """The time by which a family must have been over, if this run of it is old enough."""
        age = self._retention.of(agent)
        return None if age is None or finished > now - age else now - age

    async def _remove(self, families: list[Family]) -> int | None:
        """Remove families. None if they could not be archived: then they stay."""
        archived = families if self._archive is None else await self._archived(families, self._archive)
        if archived is None:
            return None
        gone = 0
        for start in range(0, len(archived), FAMILIES_AT_A_TIME):
            gone += len(await self._keeper.remove_families(archived[start : start + FAMILIES_AT_A_TIME]))
            await asyncio.sleep(self._pause)
        return gone

    async def _archived(
        self, families: list[Family], archive: Callable[[Sequence[Family]], Awaitable[None]]
    ) -> list[Family] | None:
        """The families that are now in the archive; None if it cannot be written. An unreadable family stays, and does
        not keep the others from being removed.
        """
        try:
            await archive(families)
        except OSError as error:
            self._trouble(
                f"runs older than their retention time are not removed, because they cannot be archived: {error}"
            )
            return None
        except StoreUnavailable:
            raise
        except Exception as error:
            if len(families) == 1:
                self._trouble(
                    f"run {families[0].root} is not removed, because it cannot be read for the archive: {error}"
                )
                return []
            readable: list[Family] = []
            for family in families:
                one = await self._archived([family], archive)
                if one is None:
                    return None
                readable += one
            return readable
        return families

    async def _remove_events(self, now: Microseconds) -> None:
        """Events without runs: their payload is removed with their last run, or after the app's retention time if they
        never had one. Events without a payload are removed after the deduplication window.
        """
        kept, app = self._retention.default, self._retention.app
        window = self._retention.deduplication
        shortest = self._retention.shortest
        if shortest is None:
            return
        async for after, upto in self._windows("events"):
            old = await self._keeper.old_events(app, after, upto, now - min(window, shortest))
            payloads = [
                one.seq
                for one in old
                if not one.gone and (one.had_runs or (kept is not None and one.accepted_at <= now - kept))
            ]
            events = [one.seq for one in old if one.gone and one.accepted_at <= now - window]
            for start in range(0, max(len(payloads), len(events)), ROWS_AT_A_TIME):
                end = start + ROWS_AT_A_TIME
                await self._keeper.remove_traces(
                    RemoveTraces(app, before=now - window, payloads=payloads[start:end], events=events[start:end])
                )
                await asyncio.sleep(self._pause)

    async def _remove_operations(self, now: Microseconds) -> None:
        """Remove the records of who did what: those about a sent event, a started run or a check-in go with the event, after the
        deduplication window; the acts of people after the app's own time, if it has one.
        """
        app, sent, acts = self._retention.app, now - self._retention.deduplication, self._retention.operations
        decided = None if acts is None else now - acts
        before = sent if decided is None else max(sent, decided)
        async for after, upto in self._windows("operations"):
            old = await self._keeper.old_operations(app, after, upto, sent, decided)
            for start in range(0, len(old), ROWS_AT_A_TIME):
                part = old[start : start + ROWS_AT_A_TIME]
                await self._keeper.remove_traces(RemoveTraces(app, before=before, operations=part))
                await asyncio.sleep(self._pause)

    async def _remove_rest(self, now: Microseconds) -> None:
        """Remove idempotency keys, processes that left, keys without runs, and chains of events that are over."""
        app, before = self._retention.app, now - self._retention.deduplication
        after: str | None = ""
        while after is not None:
            old, after = await self._keeper.old_idempotency(app, after, before, ROWS_AT_A_TIME)
            if old:
                await self._keeper.remove_traces(RemoveTraces(app, before=before, idempotency=old))
            await asyncio.sleep(self._pause)
        keys = await self._keeper.empty_keys(app, ROWS_AT_A_TIME)
        await self._keeper.remove_traces(RemoveTraces(app, keys=keys, processes_before=now - PROCESSES_ARE_KEPT))
        gone = ROWS_AT_A_TIME
        while gone == ROWS_AT_A_TIME:
            over = RemoveTraces(app, chains_before=now - CHAINS_ARE_KEPT, most=ROWS_AT_A_TIME)
            gone = await self._keeper.remove_traces(over)
            await asyncio.sleep(self._pause)
        gone = ROWS_AT_A_TIME
        while gone >= ROWS_AT_A_TIME:
            gone = await self._keeper.remove_traces(RemoveTraces(app, once=True, most=ROWS_AT_A_TIME))
            await asyncio.sleep(self._pause)

    async def _remove_uses(self, now: Microseconds) -> None:
        """Remove uses that no rule counts any more, and counters without a use: a stranger may be the subject of each."""
        app, before = self._retention.app, now - max(self._counted_for(), USES_ARE_KEPT)
        while uses := await self._keeper.old_uses(app, before, ROWS_AT_A_TIME):
            await self._keeper.remove_traces(RemoveTraces(app, before=before, uses=uses))
            await asyncio.sleep(self._pause)
        while counters := await self._keeper.unused_counters(app, ROWS_AT_A_TIME):
            await self._keeper.remove_traces(RemoveTraces(app, counters=counters))
            await asyncio.sleep(self._pause)

    async def _remove_occurrences(self, now: Microseconds) -> None:
        """Remove old occurrences. They are kept as long as the runs of their agent."""
        app = self._retention.app
        for agent in await self._keeper.agents_with_schedules(app):
            kept = self._retention.of(agent)
            gone = 0 if kept is None else ROWS_AT_A_TIME
            while gone == ROWS_AT_A_TIME:
                old = [(agent, now - (kept or 0))]
                gone = await self._keeper.remove_traces(RemoveTraces(app, occurrences=old, most=ROWS_AT_A_TIME))
                await asyncio.sleep(self._pause)

    async def _forget_of_sources(self, now: Microseconds) -> None:
        """Remove further identities of events after the deduplication window. Remove items that are gone from a source
        once no event of theirs can be left: an item that came back would get a number that an event already has.
        """
        app, before = self._retention.app, now - self._retention.deduplication
        oldest = await self._keeper.oldest_event()
        upto = before if oldest is None else min(before, oldest - ITEMS_OUTLIVE_EVENTS)
        gone = ROWS_AT_A_TIME
        while gone >= ROWS_AT_A_TIME:
            items = [(source, upto) for source, since in await self._keeper.sources_with_gone(app) if since < upto]
            gone = await self._keeper.forget_old(ForgetOld(app, before, items, ROWS_AT_A_TIME))
            await asyncio.sleep(self._pause)

    async def _cut_quarantine(self, now: Microseconds) -> None:
        """Remove unverified inputs: those that are too old, and the oldest if there are too many."""
        kept = self._retention.quarantine_for
        before = None if kept is None else now - kept
        request = CutQuarantine(self._retention.app, self._retention.quarantine, before)
        removed = 0
        while gone := await self._keeper.cut_quarantine(request):
            removed += gone
            await asyncio.sleep(self._pause)
        if removed:
            self.log.info("removed unverified inputs from quarantine", inputs=removed)

    async def _sweep_blobs(self, now: Microseconds) -> None:
        """Remove blobs that were unreferenced twice in a row, with a while in between: a reader of a reference that was
        overwritten since still finds its blob.
        """
        if self._suspects is None and self._swept is not None and now - self._swept < SWEEP_EVERY:
            return
        before = now - BLOBS_ARE_NEW
        found, onward = await self._keeper.unreferenced(self._blobs_after, before, BLOBS_AT_A_TIME)
        if self._suspects is None and found:
            self._suspects = found
            return
        gone = sorted(found & (self._suspects or set()))
        for start in range(0, len(gone), ROWS_AT_A_TIME):
            request = RemoveTraces(self._retention.app, blobs=gone[start : start + ROWS_AT_A_TIME], blobs_before=before)
            await self._keeper.remove_traces(request)
            await asyncio.sleep(self._pause)
        self._suspects, self._swept, self._blobs_after = None, now, onward

    async def _windows(self, table: Literal["runs", "events", "operations"]) -> AsyncIterator[tuple[int, int]]:
        """A table in windows, as many as fit into one turn. The next turn continues there, and starts over at the end."""
        first, last = await self._keeper.span(table)
        at = max(first - 1, self._cursors.get(table, 0))
        for _ in range(WINDOWS_AT_A_TIME):
            if at >= last:
                break
            yield at, at + WINDOW
            at += WINDOW
        self._cursors[table] = 0 if at >= last else at
