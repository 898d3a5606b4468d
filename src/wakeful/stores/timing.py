"""What a store can be asked about schedules: one request per transition.

A schedule's row names its next instant before that is due. Whoever settles instants says which one it believed to be next, and
under which revision of the definition: of several who do so at once, one wins, and for all others nothing happens.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from wakeful.clock import Microseconds
from wakeful.model import OccurrenceState, Receipt, ScheduleState
from wakeful.stores.alarm import Alarm
from wakeful.stores.request import Others, Request
from wakeful.stores.verbs.accept import AcceptEvents
from wakeful.stores.verbs.with_events import WithEvents

Origin = Literal["code", "runtime", "reminder", "heartbeat"]
ChangeVerb = Literal["add", "edit", "pause", "resume", "remove", "fire", "move"]


@dataclass(frozen=True, slots=True)
class Span:
    """Instants that follow each other: the first, the last, and how many; and the last but one, where it is known: the rule that
    could tell may be another one by then.
    """

    first: Microseconds
    last: Microseconds
    count: int
    before: Microseconds | None = None

    def and_then(self, later: Span | None) -> Span:
        if later is None:
            return self
        before = self.last if later.count == 1 else later.before
        return Span(self.first, later.last, self.count + later.count, before)


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
    done_until: Microseconds  # no instant up to this comes any more, wherever the clock is set
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
class Fired:
    """What a firing brought."""

    receipts: list[Receipt]


@dataclass(slots=True)
class SettleOccurrences(WithEvents[Fired | None]):
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
    def done_until(self) -> Microseconds:
        """The last instant that is settled with this, or waits."""
        return reached(self.schedule.done_until, self.settled, self.queued, *(one.instant for one in self.firings))

    def alarming(self) -> bool:
        return self.alarm is not None

    def tell(self, result: Fired | None, others: Others) -> None:
        if not self.waits_for:
            WithEvents.tell(self, result, others)
        elif result is not None:
            others.all = True  # another process may have the run that it waits for


@dataclass(slots=True)
class FireSchedule(WithEvents[Fired]):
    """Fire a schedule by hand, beside its instants."""

    schedule: StoredSchedule
    instant: Microseconds
    accept: AcceptEvents
    operator: str
    note: str | None = None


@dataclass(slots=True)
class ChangeSchedule(Request[StoredSchedule | None]):
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
    done_until: Microseconds
    data: str | None = None
    owner: str | None = None
    note: str | None = None
    next_at: Microseconds | None = None
    due_at: Microseconds | None = None
    settled: list[Settled] = field(default_factory=list)
    queued: Span | None = None
    waits_for: str | None = None

    def tell(self, result: StoredSchedule | None, others: Others) -> None:
        """Another process may be the one that has it due next."""
        others.all = others.all or result is not None


def reached(before: Microseconds, settled: list[Settled], queued: Span | None, *instants: Microseconds) -> Microseconds:
    """Up to where instants are accounted for, with these."""
    return max(before, *(one.span.last for one in settled), *instants, before if queued is None else queued.last)


def missed_alarm(app: str, schedule: str) -> str:
    """The key of the alarm about instants that nobody kept."""
    return f"missed/{app}/{schedule}"


def unfired_alarm(app: str, schedule: str) -> str:
    """The key of the alarm about a schedule whose definition a process cannot make anything of."""
    return f"schedule/{app}/{schedule}"


def accept_of(request: object) -> AcceptEvents | None:
    """The events that come in with a request, whichever kind it is."""
    if type(request) is AcceptEvents:
        return request
    return getattr(request, "accept", None)
