"""How well a schedule keeps its times: how late it fires, and its real interval.

    configured   ├────┼────┼────┼────┼────┤      every 10 m
    real         ├──────┼───────┼─────────┤      every 17 m

Both intervals are computed over the same stretch, from the first to the last occurrence given. So nights and weekends that
the rule leaves out do not count as drift, and skipped or missed occurrences in between do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median_low

from wakeful.clock import Microseconds
from wakeful.triggers.schedule import Rule

# At most this many occurrences of the stretch are counted, from its beginning.
MOST_OCCURRENCES = 20_000


@dataclass(frozen=True, slots=True)
class FiredOccurrence:
    """An occurrence and the time at which it fired."""

    scheduled_for: Microseconds
    at: Microseconds


@dataclass(frozen=True, slots=True)
class Cadence:
    """What the last occurrences show. The intervals are None while there are fewer than two occurrences."""

    occurrences: int = 0
    late: Microseconds | None = None  # the last one
    typically_late: Microseconds | None = None
    configured: Microseconds | None = None  # the interval
    real: Microseconds | None = None

    @property
    def drift(self) -> float | None:
        """How much longer the real interval is than the configured one: 0.4 for 14 instead of 10 minutes."""
        return self.real / self.configured - 1 if self.real is not None and self.configured else None


def cadence_of(rule: Rule, offset: Microseconds, occurrences: Sequence[FiredOccurrence]) -> Cadence:
    """The cadence of `occurrences`, in order of time; `offset` is the delay (jitter) with which the schedule fires."""
    if not occurrences:
        return Cadence()
    late = [max(0, one.at - one.scheduled_for - offset) for one in occurrences]
    lateness = Cadence(len(occurrences), late[-1], median_low(late))
    first, last = occurrences[0], occurrences[-1]
    if first.scheduled_for >= last.scheduled_for:
        return lateness
    count, seen = rule.count(first.scheduled_for, last.scheduled_for, MOST_OCCURRENCES)
    configured = (seen - first.scheduled_for) // (count - 1) if count > 1 else None
    real = (last.at - first.at) // (len(occurrences) - 1)
    return Cadence(len(occurrences), lateness.late, lateness.typically_late, configured, real)
