"""`cron("0 8 * * 1-5", tz="Europe/London")`: the five fields of crontab, in local time.

When clocks change, it behaves like Debian's cron. Expressions whose minute or hour begins with a star follow local time: a time
that the clock skips does not occur, and a time that it shows twice occurs twice. All other expressions occur once: a skipped
time occurs when the clock has jumped, a repeated time occurs the first time.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from itertools import islice
from typing import Any, ClassVar
from zoneinfo import ZoneInfo

from wakeful.clock import Microseconds
from wakeful.errors import ConfigError
from wakeful.triggers.fields import CronFields, checked, read_fields
from wakeful.triggers.schedule import Schedule, read_timing
from wakeful.triggers.zones import DAY, day_of, first_showing, showings, spans, zone_named

# An expression with no occurrence for this long has none. The rarest are 40 years apart: a fifth Monday in February, around 2100.
YEARS = 50
_EPOCH = date(1970, 1, 1).toordinal()


@dataclass(frozen=True, slots=True)
class Cron:
    """Occurrences by the fields of crontab."""

    expression: str
    zone: str
    _zone: ZoneInfo = field(init=False, repr=False, compare=False)
    _fields: CronFields = field(init=False, repr=False, compare=False)

    kind: ClassVar[str] = "cron"

    def __post_init__(self) -> None:
        object.__setattr__(self, "_zone", zone_named(self.zone, where=f'cron("{self.expression}")'))
        object.__setattr__(self, "_fields", read_fields(self.expression))

    def next(self, after: Microseconds) -> Microseconds | None:
        today = day_of(after, self._zone)
        for day in self._days(today - self._blurred(today)):
            found = self._first(day, after)
            if found is not None:
                beside = self._first(day + 1, after) if self._blurred(day) else None
                return found if beside is None else min(found, beside)
        return None

    def previous(self, before: Microseconds) -> Microseconds | None:
        today = day_of(before, self._zone)
        for day in self._days(today + self._blurred(today), step=-1):
            found = self._last(day, before)
            if found is not None:
                beside = self._last(day - 1, before) if self._blurred(day) else None
                return found if beside is None else max(found, beside)
        return None

    def _blurred(self, day: int) -> bool:
        """Whether occurrences of the neighbouring days may lie among those of this day: if a clock is set back over midnight, the
        next day begins before this one is over.
        """
        return len(spans(day, self._zone)) > 1

    def count(self, first: Microseconds, last: Microseconds, most: int) -> tuple[int, Microseconds]:
        count, seen = 0, first
        for occurrence in islice(self._from(first), most):
            if occurrence > last:
                break
            count, seen = count + 1, occurrence
        return count, seen

    def _from(self, first: Microseconds) -> Iterator[Microseconds]:
        """All occurrences in order: the same that `next` finds, but computed a day at a time."""
        held: Sequence[Microseconds] = ()
        for day in self._days(day_of(first, self._zone) - 1):
            dawn = day * DAY - max(offset for _, _, offset in spans(day, self._zone))
            yield from (occurrence for occurrence in held if first <= occurrence < dawn)
            start, times = self._on(day)
            late = {occurrence for occurrence in held if occurrence >= dawn}
            held = sorted(late.union(start + time for time in times))
        yield from (occurrence for occurrence in held if first <= occurrence)

    def _first(self, day: int, after: Microseconds) -> Microseconds | None:
        start, times = self._on(day)
        place = bisect_right(times, after - start)
        return start + times[place] if place < len(times) else None

    def _last(self, day: int, before: Microseconds) -> Microseconds | None:
        start, times = self._on(day)
        place = bisect_left(times, before - start)
        return start + times[place - 1] if place else None

    def _on(self, day: int) -> tuple[Microseconds, Sequence[Microseconds]]:
        """The occurrences of a local day: its start, and their distances from it."""
        if not self._fields.take(date.fromordinal(_EPOCH + day)):
            return 0, ()
        midnight = day * DAY
        around = spans(day, self._zone)
        if len(around) == 1:
            return midnight - around[0][2], self._fields.times
        walls = (midnight + time for time in self._fields.times)
        if self._fields.wild:
            return 0, sorted(moment for wall in walls for moment in showings(wall, self._zone))
        return 0, sorted({first_showing(wall, self._zone) for wall in walls})

    def _days(self, day: int, step: int = 1) -> Iterator[int]:
        """The local days that the fields select, forward or backward from this one."""
        current = date.fromordinal(_EPOCH + day)
        # The calendar is finite, and the neighbours of the last day must still be in it.
        first, last = max(current.year - YEARS, 2), min(current.year + YEARS, 9998)
        while first <= current.year <= last:
            if not self._fields.take_month(current):
                current = _month_after(current) if step > 0 else current.replace(day=1) - timedelta(days=1)
                continue
            if self._fields.take(current):
                yield current.toordinal() - _EPOCH
                first, last = max(current.year - YEARS, 2), min(current.year + YEARS, 9998)
            current += timedelta(days=step)

    def describe(self) -> str:
        return f'cron("{self.expression}", tz="{self.zone}")'

    def definition(self) -> dict[str, Any]:
        return {"kind": self.kind, "expression": self.expression, "zone": self.zone}


def _month_after(day: date) -> date:
    return (day.replace(day=1) + timedelta(days=32)).replace(day=1)


def cron(expression: str, *, tz: str | ZoneInfo | None = None, **options: Any) -> Schedule:
    """Wake at the times of a crontab line's five fields, or of `@daily` and its like, in local time of `tz`.

    Options, as for `every` and `at`: name, overlap, catch_up, max_age, max_count, grace, jitter, expires, starts_within,
    ends_within.
    """
    where = f"cron({expression!r})"
    words = checked(expression, where=where)
    rule = Cron(words, zone_named(tz, where=where).key)
    if rule.next(0) is None:
        raise ConfigError(f"{where}: it never fires: no day within {YEARS} years matches all of its fields")
    timing, name = read_timing(options, where=where)
    return Schedule(rule, timing, name)
