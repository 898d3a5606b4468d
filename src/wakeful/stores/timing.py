"""Stored schedules and their occurrences.

A schedule's row names its next occurrence before it is due. A process that records occurrences says which one it believed to be next,
and under which revision of the definition. If several processes do so at once, one wins; for the others nothing changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from wakeful.clock import Microseconds
from wakeful.model import OccurrenceState, Receipt, ScheduleState

Origin = Literal["code", "runtime", "reminder", "heartbeat"]


@dataclass(frozen=True, slots=True)
class Span:
    """Consecutive occurrences: the first, the last and their number; also the last but one, if it is known, because the rule may have
    changed when it is asked for.
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
    """A stored schedule. `waits_for` is the run that queued occurrences wait for; `open_run` is the last run while it is not
    finished.
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
    done_until: Microseconds  # no occurrence up to this time comes again, even if the clock is set back
    waits_for: str | None
    last_at: Microseconds | None
    last_run: str | None
    fired_at: Microseconds | None
    created_at: Microseconds
    changed_at: Microseconds
    changed_by: str
    open_run: str | None = None


@dataclass(frozen=True, slots=True)
class OccurrenceRecord:
    """The result of occurrences that were not fired."""

    state: OccurrenceState
    span: Span
    reason: str
    run: str | None = None


@dataclass(frozen=True, slots=True)
class DueOccurrence:
    """An occurrence whose event is accepted now, with the earlier ones that are coalesced into it."""

    scheduled_for: Microseconds
    coalesced: Span | None = None

    @property
    def span(self) -> Span:
        alone = Span(self.scheduled_for, self.scheduled_for, 1)
        return alone if self.coalesced is None else self.coalesced.and_then(alone)


@dataclass(slots=True)
class Fired:
    """The result of a fired occurrence."""

    receipts: list[Receipt]


def reached(
    before: Microseconds, records: list[OccurrenceRecord], queued: Span | None, *occurrences: Microseconds
) -> Microseconds:
    """The time up to which occurrences are accounted for, these included."""
    return max(before, *(one.span.last for one in records), *occurrences, before if queued is None else queued.last)
