"""Backfill: run past occurrences of a schedule. They are counted first, then queued behind all other work.

    [from, to) ──► occurrences by the rule ──┬── their event, or a fired row, is there ──► already done
                                          ├── the schedule has not recorded them yet ──► left to the schedule
                                          └── else ──► an event like the scheduler's, with the same source and id

The events have the scheduler's own identity, so a second backfill or a concurrent scheduler creates no duplicates. A backfill
that was stopped is continued by the same command. "Behind all other work" means the lowest priority, and only a few queued at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from pydantic_core import from_json, to_json

from wakeful.clock import Microseconds, to_text
from wakeful.errors import ConfigError, NotFound, did_you_mean
from wakeful.intake.flow import LOWEST
from wakeful.intake.matching import fits
from wakeful.model import Arrival, Flow, event_key
from wakeful.operations.pace import BATCH, Pace, Progress, unseen
from wakeful.stores.request import Actor, Bulk
from wakeful.stores.timing import DueOccurrence, StoredSchedule
from wakeful.stores.verbs.accept import AcceptEvents
from wakeful.stores.verbs.backfill import FillOccurrences, OccurrenceRow, known_events, ledger_between, not_begun
from wakeful.stores.verbs.people import RecordOperation
from wakeful.stores.verbs.processes import peers_of
from wakeful.triggers.schedule import Schedule, occurrences, read_definition
from wakeful.triggers.scheduler import source_of
from wakeful.triggers.schedules import code_schedules

if TYPE_CHECKING:
    from wakeful.stores.store import DatabaseStore

# At most this many of our runs wait to start while workers are busy, so that new events wait for no more than these.
AHEAD = 5
LOOK_EVERY = 0.25
MANY = 1_000  # more than this many need a confirmation
HAVE_A_RUN = frozenset({"fired", "superseded"})

Arriving = Callable[[StoredSchedule, Schedule, DueOccurrence], Arrival]


@dataclass(frozen=True, slots=True)
class Backfill:
    """Occurrences of a schedule in [since, until)."""

    stored: StoredSchedule
    schedule: Schedule
    since: Microseconds
    until: Microseconds
    recorded_until: Microseconds  # later occurrences are the scheduler's own

    @property
    def last(self) -> Microseconds:
        return min(self.until, self.recorded_until) - 1

    def shown(self) -> str:
        return f"schedule {self.stored.name} from {to_text(self.since)} until {to_text(self.until)}"


@dataclass(slots=True)
class BackfillPlan:
    """What a backfill would do: the number of occurrences, and how many are already done."""

    occurrences: int = 0
    done: int = 0
    first: Microseconds | None = None  # of those that are not done
    last: Microseconds | None = None
    to_come: int = 0  # not yet recorded by the schedule

    @property
    def new(self) -> int:
        return self.occurrences - self.done

    def to_json(self) -> dict[str, Any]:
        return {
            "instants": self.occurrences,
            "done": self.done,
            "new": self.new,
            "first": to_text(self.first),
            "last": to_text(self.last),
            "to_come": self.to_come,
        }


@dataclass(slots=True)
class Outcome:
    """The result of a backfill."""

    made: int = 0  # runs
    done: int = 0  # already done by another process
    denied: int = 0


def declared(app: str, agents: Mapping[str, Any], *, now: Microseconds) -> list[StoredSchedule]:
    """The schedules of the code as they would be stored, for an app that has never run."""
    return [
        StoredSchedule(
            *(0, app, name, agent, "code", "live", 1, to_json(schedule.definition()).decode(), None, owner),
            next_at=schedule.rule.next(now),
            due_at=None,
            queued=None,
            done_until=now,
            waits_for=None,
            last_at=None,
            last_run=None,
            fired_at=None,
            created_at=now,
            changed_at=now,
            changed_by="code",
        )
        for name, (agent, schedule, owner) in code_schedules(agents).items()
    ]


def choose(schedules: list[StoredSchedule], agent: str, name: str | None) -> StoredSchedule:
    """The schedule to backfill. Raises NotFound if there is none of that name, or several and none is named."""
    mine = {one.name: one for one in schedules if one.agent == agent and one.state != "removed"}
    if name is not None:
        if name not in mine:
            message = f'agent {agent} has no schedule "{name}".{did_you_mean(name, mine)}'
            raise NotFound(message)
        return mine[name]
    if not mine:
        message = f"agent {agent} has no schedule: give it one, like cron(…), or see `wakeful schedules`"
        raise NotFound(message)
    if len(mine) > 1:
        message = f"agent {agent} has several schedules, {', '.join(sorted(mine))}: choose one with --schedule NAME"
        raise NotFound(message)
    return next(iter(mine.values()))


def prepare(stored: StoredSchedule, since: Microseconds, until: Microseconds, *, now: Microseconds) -> Backfill:
    """The span to backfill. Occurrences that the schedule has not recorded are left out: it will fire or skip them itself."""
    if since >= until:
        message = f"from {to_text(since)} is not before to {to_text(until)}"
        raise ConfigError(message)
    own = [stored.next_at, None if stored.queued is None else stored.queued.first, now + 1]
    recorded_until = min(one for one in own if one is not None)
    return Backfill(stored, read_definition(from_json(stored.definition)), since, until, recorded_until)


async def plan_backfill(store: DatabaseStore, backfill: Backfill) -> BackfillPlan:
    """Count the occurrences, and how many are already done."""
    plan = BackfillPlan()
    ledger = await Ledger.read(store, backfill)
    for page in pages(backfill):
        new = await ledger.left(page)
        plan.occurrences += len(page)
        plan.done += len(page) - len(new)
        if new:
            plan.first = new[0] if plan.first is None else plan.first
            plan.last = new[-1]
    rule = backfill.schedule.rule
    first = rule.next(max(backfill.since, backfill.recorded_until) - 1)
    if first is not None and first < backfill.until:
        plan.to_come = rule.count(first, backfill.until - 1, BATCH * BATCH)[0]
    return plan


async def fill(
    store: DatabaseStore,
    backfill: Backfill,
    plan: BackfillPlan,
    arrive: Arriving,
    *,
    by: Actor,
    note: str | None = None,
    pace: Pace | None = None,
    progress: Progress = unseen,
) -> Outcome:
    """Queue the occurrences, oldest first."""
    pace = pace or Pace()
    outcome, seen = Outcome(), 0
    stored = backfill.stored
    reason = f"backfill by {by.name}" + (f": {note}" if note else "")
    bulk = Bulk("backfill", stored.app, stored.agent, f"{plan.new} occurrences, {backfill.shown()}")
    ledger, queue = await Ledger.read(store, backfill), Queue(store, stored)
    for page in pages(backfill):
        for batch in pace.batches(await ledger.left(page)):
            left = list(batch)
            while left and await pace.turn(seen) and (room := await queue.room(pace)):
                chosen, left = left[:room], left[room:]
                request = _request(backfill, chosen, ledger, arrive, reason, by=by, note=note, bulk=bulk)
                fired = await store.do(request)
                for receipt in fired.receipts:
                    outcome.done += receipt.status == "duplicate"
                    outcome.made += receipt.status != "duplicate" and bool(receipt.runs)
                    outcome.denied += receipt.status != "duplicate" and not receipt.runs
                    queue.add(receipt.runs)
                seen += len(chosen)
                progress(seen, plan.new)
            if pace.cut_short:
                break
        if pace.cut_short:
            break
    if not seen:  # the operator's request is recorded all the same
        words = bulk.words(0, note)
        await store.do(RecordOperation(by.name, bulk.verb, bulk.app, bulk.subject, words, by.way, by.proved))
    return outcome


def pages(backfill: Backfill) -> Iterator[list[Microseconds]]:
    """The occurrences, in batches."""
    found = occurrences(backfill.schedule.rule, backfill.since, backfill.last)
    while page := list(islice(found, BATCH)):
        yield page


class Ledger:
    """The ledger's rows of a backfill's occurrences. Existing rows stay; a backfill only adds its own."""

    def __init__(self, store: DatabaseStore, backfill: Backfill, rows: list[OccurrenceRow]) -> None:
        self._store = store
        self._app = backfill.stored.app
        self._source = source_of(self._app, backfill.stored.name)
        self._have_a_run = {row.first for row in rows if row.state in HAVE_A_RUN}
        self._others = apart([row for row in rows if row.state not in HAVE_A_RUN])
        self._place = 0

    @classmethod
    async def read(cls, store: DatabaseStore, backfill: Backfill) -> Ledger:
        rows: list[OccurrenceRow] = []
        async for page in ledger_between(store.database, backfill.stored.seq, backfill.since, backfill.last):
            rows += page
        return cls(store, backfill, rows)

    async def left(self, page: list[Microseconds]) -> list[Microseconds]:
        """The occurrences that are not done: no event is stored, and the ledger, which outlives events, has no run for them."""
        keys = {event_key(self._app, self._source, to_text(one) or ""): one for one in page}
        known = await known_events(self._store.database, list(keys))
        done = {keys[key] for key in known} | self._have_a_run
        return [one for one in page if one not in done]

    def row_of(self, occurrence: Microseconds) -> int | None:
        """The ledger row that contains an occurrence. Must be called in order of time."""
        while self._place < len(self._others) and self._others[self._place].last < occurrence:
            self._place += 1
        if self._place == len(self._others) or self._others[self._place].first > occurrence:
            return None
        return self._others[self._place].seq


def apart(rows: list[OccurrenceRow]) -> list[OccurrenceRow]:
    """Rows in order of time, without rows inside another: policy may have denied some occurrences of an earlier backfill."""
    found: list[OccurrenceRow] = []
    for row in sorted(rows, key=lambda one: (one.first, -one.last)):
        if not found or row.last > found[-1].last:
            found.append(row)
    return found


class Queue:
    """Our runs that wait to start, which limit how many more are queued. No limit while no worker is alive: nothing is delayed then."""

    def __init__(self, store: DatabaseStore, stored: StoredSchedule) -> None:
        self._store = store
        self._stored = stored
        self._waiting: list[str] = []
        self._has_worker = False

    def add(self, runs: list[str]) -> None:
        self._waiting += runs

    async def room(self, pace: Pace) -> int:
        """Wait until there is room, and return how many may be queued now; 0 if the backfill must stop."""
        while True:
            if not self._has_worker:
                peers = await peers_of(self._store.database, self._stored.app, "")
                self._has_worker = peers.get(self._stored.agent, 0) > 0
            if not self._has_worker:
                return BATCH
            self._waiting = await not_begun(self._store.database, self._waiting) if self._waiting else []
            if len(self._waiting) < AHEAD:
                return AHEAD - len(self._waiting)
            if not await pace.rest(LOOK_EVERY):
                return 0


def _request(
    backfill: Backfill, chosen: list[Microseconds], ledger: Ledger, arrive: Arriving, reason: str, **author: Any
) -> FillOccurrences:
    stored, schedule = backfill.stored, backfill.schedule
    # An operator asked for these, so they do not expire.
    timeless = replace(schedule, timing=replace(schedule.timing, expires=None, overlap="allow"))
    arrivals = [
        behind_all(arrive(stored, timeless, DueOccurrence(one)), stored.name, schedule, reason) for one in chosen
    ]
    redoes = [ledger.row_of(one) for one in chosen]
    return FillOccurrences(stored, chosen, redoes, AcceptEvents(stored.app, arrivals, matches=fits), reason, **author)


def behind_all(arrival: Arrival, name: str, schedule: Schedule, reason: str) -> Arrival:
    """Lowest priority, in a lane of their own, one after the other unless the schedule allows overlap. So no occurrence that
    fires on time is skipped, replaced or delayed because of them.
    """
    for admission in arrival.admissions:
        if admission.run_id is None:
            continue
        flow = admission.flow or Flow(per_key=None, blocks=False)
        flow = replace(flow, priority=LOWEST, overlap="queue", debounce=None, batch=None, expires=None)
        ordered = schedule.timing.overlap != "allow" or flow.per_key is not None
        if not flow.key and ordered:
            flow = replace(flow, key=f"backfill/{name}", per_key=1, blocks=False)
        elif not flow.key:
            flow = replace(flow, key=None)
        admission.flow, admission.reason = flow, reason
    return arrival
