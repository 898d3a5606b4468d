"""The scheduler: turns due occurrences into events, in every process, without a leader.

    the row names the next occurrence ──► judge ──► one transaction: events, the ledger, the next occurrence
                                                    (a second process finds the row changed and does nothing)

It follows the stored definition, never its own code: a process with older code fires by the newer definition. It keeps only parsed
rules in memory and does not poll: it rests until the next occurrence, or until it is told of a change.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import TYPE_CHECKING

from pydantic_core import from_json

from wakeful.clock import Microseconds, seconds, to_datetime, to_text
from wakeful.errors import StoreUnavailable
from wakeful.intake.cloudevents import new_event
from wakeful.intake.matching import fits
from wakeful.model import Arrival, Event, Flow
from wakeful.service import Service
from wakeful.stored_errors import words_of
from wakeful.stores.alarm import Alarm, missed_alarm, unfired_alarm
from wakeful.stores.tampered import refuse_tampered
from wakeful.stores.timing import DueOccurrence, StoredSchedule
from wakeful.stores.verbs.accept import AcceptEvents
from wakeful.stores.verbs.schedules import (
    RecordOccurrences,
    due_schedules,
    find_schedule,
    next_schedule,
    queued_schedules,
)
from wakeful.triggers.due import Decided, covered, judge, missed_text
from wakeful.triggers.schedule import TYPE, Schedule, read_definition

if TYPE_CHECKING:
    from wakeful.stores.store import DatabaseStore

# Schedules in one batch.
BATCH = 500
# Runs may end unnoticed (a process that died, a person using another process) and clocks may be set: the lookout checks every few
# seconds. This is a second safety net.
LOOK_ANYWAY_EVERY = 300.0
LOOK_FOR_QUEUED_EVERY = 5.0


class Rules:
    """Stored definitions, parsed once for each revision."""

    def __init__(self) -> None:
        self._read: dict[int, tuple[int, Schedule]] = {}

    def of(self, stored: StoredSchedule) -> Schedule:
        known = self._read.get(stored.seq)
        if known is None or known[0] != stored.revision:
            known = self._read[stored.seq] = (stored.revision, read_definition(from_json(stored.definition)))
        return known[1]


class Scheduler(Service):
    """Fires the schedules of one app whose agents this process has."""

    name = "scheduler"

    def __init__(
        self,
        app: str,
        store: DatabaseStore,
        arrive: Callable[[Event, str], Arrival],
        agents: Collection[str],
        *,
        alarm: Callable[..., None] = lambda _key, _text, **_: None,
        time_passes: bool = True,
    ) -> None:
        super().__init__()
        self._app = app
        self._store = store
        self._arrive = arrive
        self._agents = agents
        self._alarm = alarm
        self._time_passes = time_passes
        self.rules = Rules()
        self.fired = 0
        self._some_wait = False
        self._overtaken = False  # another process was first with one of them
        self._unfired: dict[int, tuple[int, str]] = {}  # revisions that cannot be fired, and the reported reason

    async def run_once(self) -> float | None:
        """Decide everything that is due, then rest until the next occurrence. The next occurrence is read before the last look, and
        again if that look found anything: an occurrence that becomes due between the two reads is in one of the answers.
        """
        await self.tick()
        while True:
            now, due = await next_schedule(self._store.database, self._app)
            asked_at = time.monotonic()
            self._overtaken = False
            if not await self.tick() and not self._overtaken:
                break
        if not self._time_passes:
            return None
        rest = LOOK_FOR_QUEUED_EVERY if self._some_wait else LOOK_ANYWAY_EVERY
        return rest if due is None else min(rest, max(0.0, seconds(due - now) - (time.monotonic() - asked_at)))

    async def tick(self) -> int:
        """Decide everything that is due now, once; returns how many schedules advanced."""
        moved = 0
        after: tuple[Microseconds, int] | None = None
        while True:
            now, due = await due_schedules(self._store.database, self._app, after, BATCH)
            if now is not None:
                moved += await self._decide(due, now)
            if len(due) < BATCH:
                return moved + await self._release()
            after = (due[-1].due_at or 0, due[-1].seq)
            await asyncio.sleep(0)

    async def _release(self) -> int:
        """Fire occurrences that waited for a run that has ended."""
        queued = await queued_schedules(self._store.database, self._app)
        self._some_wait = bool(queued)
        self._store.journal.await_end(frozenset(one.waits_for for one in queued if one.waits_for), self.wake)
        free = [one for one in queued if one.open_run is None or self._need_not_wait(one)]
        if not free:
            return 0
        now, _ = await next_schedule(self._store.database, self._app)
        return await self._decide(free, now)

    def _need_not_wait(self, stored: StoredSchedule) -> bool:
        """Whether its occurrences need not wait for the run before them: they were queued by an edit, not by that run."""
        try:
            return self.rules.of(stored).timing.overlap != "queue_one"
        except Exception:
            return False  # `_decide` reports it

    async def decide_all(self, name: str) -> None:
        """Decide every due occurrence of a schedule by its current definition, if each has a run of its own."""
        while (
            stored := await find_schedule(self._store.database, self._app, name)
        ) is not None and stored.state == "live":
            if not self.rules.of(stored).fires_all:
                return
            now, _ = await next_schedule(self._store.database, self._app)
            if not await self._decide([stored], now):
                return

    async def _decide(self, due: list[StoredSchedule], now: Microseconds) -> int:
        requests = []
        for stored in due:
            try:
                request = self._judged(stored, now)
            except Exception as error:
                self._complain(stored, f"{type(error).__name__}: {words_of(error)}")
                continue
            if request is not None:
                requests.append(request)
        results = await asyncio.gather(*(self._store.do(one) for one in requests), return_exceptions=True)
        moved = 0
        for request, result in zip(requests, results, strict=True):
            if isinstance(result, StoreUnavailable):
                raise result
            if isinstance(result, BaseException):
                if not isinstance(result, Exception):
                    raise result
                self.log.error("firing a schedule failed", schedule=request.schedule.name, error=repr(result))
                continue
            if result is None:
                self._overtaken = True  # the row has changed
            else:
                moved += 1
                self.fired += len(result.receipts)
        return moved

    def _complain(self, stored: StoredSchedule, words: str) -> None:
        """Report once that a schedule cannot be fired. It stays due and is looked at again with all others."""
        if self._unfired.get(stored.seq) != (stored.revision, words):
            self._unfired[stored.seq] = (stored.revision, words)
            text = f"schedule {stored.name} cannot be fired: {words}"
            self._alarm(unfired_alarm(self._app, stored.name), text, agent=stored.agent, owner=stored.owner)

    def _judged(self, stored: StoredSchedule, now: Microseconds) -> RecordOccurrences | None:
        if stored.agent not in self._agents:
            return None  # a process that has the agent fires it
        schedule = self.rules.of(stored)
        offset = schedule.offset(self._app, stored.name)
        verdict = judge(schedule, stored, now, offset)
        return None if verdict is None else self.request(stored, schedule, verdict, now, offset)

    def request(
        self, stored: StoredSchedule, schedule: Schedule, verdict: Decided, now: Microseconds, offset: Microseconds
    ) -> RecordOccurrences:
        """The request that carries out a decision."""
        key = missed_alarm(self._app, stored.name)
        accept = None
        if verdict.occurrences:
            arrivals = [self.arrival(stored, schedule, one) for one in verdict.occurrences]
            accept = AcceptEvents(self._app, arrivals, matches=fits)
        return RecordOccurrences(
            stored,
            verdict.next_at,
            None if verdict.next_at is None else verdict.next_at + offset,
            verdict.records,
            verdict.occurrences,
            accept,
            verdict.queued,
            verdict.waits_for,
            None
            if verdict.missed is None
            else Alarm(self._app, key, missed_text(stored.name, verdict.missed, now=now), stored.agent, stored.owner),
            key if verdict.on_time else None,
        )

    def arrival(self, stored: StoredSchedule, schedule: Schedule, one: DueOccurrence) -> Arrival:
        """The event of an occurrence, addressed to its agent: its source is the schedule, its id the occurrence."""
        expires = schedule.timing.expires
        if stored.data is not None:
            refuse_tampered(stored.data)
        event = new_event(
            TYPE,
            None if stored.data is None else from_json(stored.data),
            source=source_of(self._app, stored.name),
            id=to_text(one.scheduled_for),
            time=to_datetime(one.scheduled_for),
            expirytime=None if expires is None else to_datetime(one.scheduled_for + expires),
            scheduledfor=to_text(one.scheduled_for),
            coveredfrom=to_text(covered(schedule.rule, one, stored.last_at)),
            coveredcount=one.span.count,
        )
        return self.admitted(self._arrive(event, stored.agent), stored.name, schedule)

    @staticmethod
    def admitted(arrival: Arrival, name: str, schedule: Schedule) -> Arrival:
        """Apply the overlap policy: runs of one schedule go one at a time, or the newest replaces earlier ones. An agent with a
        key of its own keeps that key.
        """
        overlap = schedule.timing.overlap
        if overlap not in {"queue_all", "replace"}:
            return arrival
        for admission in arrival.admissions:
            flow = admission.flow or Flow(per_key=None, blocks=False)
            if flow.key is None and admission.run_id is not None:
                admission.flow = replace(
                    flow,
                    key=f"schedule/{name}",
                    per_key=1,
                    blocks=False,
                    overlap="replace" if overlap == "replace" else "queue",
                )
        return arrival


def source_of(app: str, schedule: str) -> str:
    """The source of a schedule's events."""
    return f"/{app}/schedules/{schedule}"
