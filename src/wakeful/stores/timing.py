"""What a store can be asked about schedules: one request per transition.

A schedule's row names its next instant before that is due. Whoever settles instants says which one it believed to be next, and
under which revision of the definition: of several who do so at once, one wins, and for all others nothing happens.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from wakeful.clock import Microseconds
from wakeful.model import OccurrenceState, Receipt, ScheduleState
from wakeful.stores.base import AcceptEvents, Alarm

Origin = Literal["code", "runtime", "reminder", "heartbeat"]
ChangeVerb = Literal["add", "edit", "pause", "resume", "remove", "fire", "move"]


@dataclass(frozen=True, slots=True)
class Span:
    """Instants that follow each other: the first, the last, and how many."""

    first: Microseconds
    last: Microseconds
    count: int

    def and_then(self, later: Span | None) -> Span:
        return self if later is None else Span(self.first, later.last, self.count + later.count)


@dataclass(frozen=True, slots=True)
class StoredSchedule:
    """A schedule as it is stored. `waits_for` is the run that queued instants wait for; `open_run` the last run, if it is not
    over.
    """

    seq: int
    app: str
    name: str
    agent: str
    origin: Origin
    state: ScheduleState
    revision: int
    definition: str
    data: str | None
    owner: str | None
    next_at: Microseconds | None
    due_at: Microseconds | None
    queued: Span | None
    waits_for: str | None
    last_at: Microseconds | None
    last_run: str | None
    fired_at: Microseconds | None
    created_at: Microseconds
    changed_at: Microseconds
    changed_by: str
    open_run: str | None = None


@dataclass(frozen=True, slots=True)
class Settled:
    """What became of instants that were not fired."""

    state: OccurrenceState
    span: Span
    reason: str
    run: str | None = None


@dataclass(frozen=True, slots=True)
class Firing:
    """An instant whose event goes in, with those before it that are coalesced into it."""

    instant: Microseconds
    coalesced: Span | None = None

    @property
    def span(self) -> Span:
        alone = Span(self.instant, self.instant, 1)
        return alone if self.coalesced is None else self.coalesced.and_then(alone)


@dataclass(slots=True)
class SettleOccurrences:
    """Settle the instants of a schedule that are due, and write down the next one. All of it or nothing.

    `accept` has one arrival for each of the `firings`. False comes back when somebody else was first, or changed it.
    """

    schedule: StoredSchedule
    next_at: Microseconds | None
    due_at: Microseconds | None
    settled: list[Settled] = field(default_factory=list)
    firings: list[Firing] = field(default_factory=list)
    accept: AcceptEvents | None = None
    queued: Span | None = None
    waits_for: str | None = None
    alarm: Alarm | None = None
    resolves: str | None = None  # the key of an alarm that is over with this

    @property
    def done(self) -> bool:
        """There is nothing more to come."""
        return self.next_at is None and self.queued is None

    @property
    def woken(self) -> list[tuple[str, str]]:
        return [] if self.accept is None else self.accept.woken


@dataclass(slots=True)
class FireSchedule:
    """Fire a schedule by hand, beside its instants."""

    schedule: StoredSchedule
    instant: Microseconds
    accept: AcceptEvents
    operator: str
    note: str | None = None

    @property
    def woken(self) -> list[tuple[str, str]]:
        return self.accept.woken


@dataclass(slots=True)
class ChangeSchedule:
    """Make, change, pause, resume or remove a schedule. `before` is the row as the caller knew it, None if there was none: if
    it is another one by now, None comes back and nothing was changed.
    """

    app: str
    name: str
    verb: ChangeVerb
    operator: str
    before: StoredSchedule | None
    agent: str
    origin: Origin
    state: ScheduleState
    definition: str
    data: str | None = None
    owner: str | None = None
    note: str | None = None
    next_at: Microseconds | None = None
    due_at: Microseconds | None = None
    settled: list[Settled] = field(default_factory=list)
    queued: Span | None = None
    waits_for: str | None = None


@dataclass(slots=True)
class Fired:
    """What a firing brought."""

    receipts: list[Receipt]


def missed_alarm(app: str, schedule: str) -> str:
    """The key of the alarm about instants that nobody kept."""
    return f"missed/{app}/{schedule}"


def accept_of(request: object) -> AcceptEvents | None:
    """The events that come in with a request, whichever kind it is."""
    if type(request) is AcceptEvents:
        return request
    return getattr(request, "accept", None)
