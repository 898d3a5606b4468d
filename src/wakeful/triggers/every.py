"""`every("30m", active="08:00-20:00", days="mon-fri")`: at a regular interval.

With `active` or `days`, the interval restarts at the beginning of each active day:

    every("5h", active="08:00-20:00")        08:00   13:00   18:00 │ 08:00   13:00   18:00 │ 08:00 …

Start and end are local times and the end is exclusive; the intervals between them are absolute time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar
from zoneinfo import ZoneInfo

from wakeful.clock import SECOND, Duration, Microseconds, duration, written
from wakeful.errors import ConfigError
from wakeful.triggers.hours import MINUTES, read_active, read_days, written_active, written_days
from wakeful.triggers.schedule import LONGEST, Schedule, read_timing
from wakeful.triggers.zones import DAY, day_of, first_showing, zone_named

MINUTE: Microseconds = 60 * SECOND
THURSDAY = 3  # 1970-01-01 was a Thursday
# Every weekday comes within seven days. A clock change that skips a whole window happens once in months.
REACH = 30


@dataclass(frozen=True, slots=True)
class Every:
    """Occurrences at an interval, counted from 1970 UTC; with hours or days, counted from the start of each active day."""

    interval: Microseconds
    zone: str
    active: tuple[int, int] | None = None  # minutes of the day
    days: tuple[int, ...] | None = None  # 0 is Monday
    _zone: ZoneInfo = field(init=False, repr=False, compare=False)

    kind: ClassVar[str] = "every"

    def __post_init__(self) -> None:
        object.__setattr__(self, "_zone", zone_named(self.zone, where="every"))
        # JSON has lists, not tuples.
        object.__setattr__(self, "active", self.active and tuple(self.active))
        object.__setattr__(self, "days", self.days and tuple(self.days))

    def next(self, after: Microseconds) -> Microseconds | None:
        if self._steady:
            return (after // self.interval + 1) * self.interval
        for start, end in self._windows(after, step=1):
            occurrence = start if after < start else start + ((after - start) // self.interval + 1) * self.interval
            if occurrence < end:
                return occurrence
        return None

    def previous(self, before: Microseconds) -> Microseconds | None:
        if self._steady:
            return (before - 1) // self.interval * self.interval
        for start, end in self._windows(before, step=-1):
            last = min(before, end) - 1
            if last >= start:
                return start + (last - start) // self.interval * self.interval
        return None

    def count(self, first: Microseconds, last: Microseconds, most: int) -> tuple[int, Microseconds]:
        if self._steady:
            count = (last - first) // self.interval + 1
            return count, first + (count - 1) * self.interval
        count, seen = 0, first
        occurrence: Microseconds | None = first
        while occurrence is not None and occurrence <= last and count < most:
            # One day at a time, however many occurrences it has.
            end = next(end for start, end in self._windows(occurrence, step=1) if start <= occurrence < end)
            steps = (min(last, end - 1) - occurrence) // self.interval + 1
            count, seen = count + steps, occurrence + (steps - 1) * self.interval
            occurrence = self.next(seen)
        return count, seen

    @property
    def _steady(self) -> bool:
        return self.active is None and self.days is None

    def _windows(self, moment: Microseconds, *, step: int) -> Iterator[tuple[Microseconds, Microseconds]]:
        """The active part of each day, forward from the day before a moment, or backward from the day after it."""
        start, end = self.active or (0, MINUTES)
        begin = day_of(moment, self._zone) - step
        for day in range(begin, begin + step * REACH, step):
            if self.days is None or (day + THURSDAY) % 7 in self.days:
                midnight = day * DAY
                # A window that a clock change skips has length zero, and so no occurrence.
                yield (
                    first_showing(midnight + start * MINUTE, self._zone),
                    first_showing(midnight + end * MINUTE, self._zone),
                )

    def describe(self) -> str:
        hours = f', active="{written_active(self.active)}"' if self.active else ""
        days = f', days="{written_days(self.days)}"' if self.days else ""
        return f'every("{written(self.interval)}"{hours}{days}, tz="{self.zone}")'

    def definition(self) -> dict[str, Any]:
        shown: dict[str, Any] = {"kind": self.kind, "interval": self.interval, "zone": self.zone}
        if self.active is not None:
            shown["active"] = list(self.active)
        if self.days is not None:
            shown["days"] = list(self.days)
        return shown


def every(
    interval: Duration,
    *,
    active: str | None = None,
    days: str | None = None,
    tz: str | ZoneInfo | None = None,
    **options: Any,
) -> Schedule:
    """Wake at an interval; with `active` and `days` only inside those hours, counted from their start on each day.

    Options, as for `cron` and `at`: name, overlap, catch_up, max_age, max_count, grace, jitter, expires.
    """
    where = f"every({interval!r})"
    try:
        span = duration(interval)
    except (ValueError, TypeError, OverflowError) as error:
        raise ConfigError(f"{where}: {error}") from None
    if span < SECOND:
        raise ConfigError(f'{where}: the shortest interval is one second: write every("1s")')
    if span > LONGEST:
        raise ConfigError(f"{where}: the longest interval is {written(LONGEST)}")
    if span > DAY and not (active is None and days is None):
        raise ConfigError(
            f"{where}: with active or days the interval restarts each day, so an interval longer than a day would be one day: "
            'write every("1d"), or leave them out'
        )
    rule = Every(
        span,
        zone_named(tz, where=where).key,
        None if active is None else read_active(active, where=where),
        None if days is None else read_days(days, where=where),
    )
    timing, name = read_timing(options, where=where, also=("active", "days", "tz"))
    return Schedule(rule, timing, name)
