"""`at("2026-12-24T18:00", tz="Europe/London")`: once."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from datetime import time as time_of_day
from typing import Any, ClassVar
from zoneinfo import ZoneInfo

from wakeful.clock import Microseconds, from_datetime
from wakeful.errors import ConfigError
from wakeful.triggers.schedule import Schedule, read_timing
from wakeful.triggers.zones import local, moment_of, zone_named

# Time is counted from the first year; in the last one the calendar still has room for every zone.
FIRST_YEAR, LAST_YEAR = 1970, 9998


@dataclass(frozen=True, slots=True)
class At:
    """One occurrence."""

    moment: Microseconds
    zone: str

    kind: ClassVar[str] = "at"

    def next(self, after: Microseconds) -> Microseconds | None:
        return self.moment if after < self.moment else None

    def previous(self, before: Microseconds) -> Microseconds | None:
        return self.moment if before > self.moment else None

    def count(self, first: Microseconds, last: Microseconds, most: int) -> tuple[int, Microseconds]:
        return min(int(first <= self.moment <= last), most), self.moment

    def describe(self) -> str:
        wall = local(self.moment, zone_named(self.zone, where="at"))
        # Without the offset, the second showing of a time would read like the first.
        shown = wall if wall.fold else wall.replace(tzinfo=None)
        spec = "auto" if wall.second or wall.microsecond else "minutes"
        return f'at("{shown.isoformat(timespec=spec)}", tz="{self.zone}")'

    def definition(self) -> dict[str, Any]:
        return {"kind": self.kind, "moment": self.moment, "zone": self.zone}


def at(time: str | datetime, *, tz: str | ZoneInfo | None = None, **options: Any) -> Schedule:
    """Wake once, at this time: a datetime, or a text like "2026-12-24T18:00".

    Without an offset it is local time in `tz`: a time that occurs twice means the first of the two, a time that the clock skips
    means the moment at which it jumps. Options, as for `cron` and `every`: name, overlap, catch_up, max_age, max_count, grace,
    jitter, expires.
    """
    where = f"at({time!r})"
    wall = _read(time, where=where)
    if not FIRST_YEAR <= wall.year <= LAST_YEAR:
        raise ConfigError(f"{where}: the year is {wall.year}, but must be from {FIRST_YEAR} to {LAST_YEAR}")
    # A datetime with a zone is shown in that zone.
    zone = zone_named(wall.tzinfo if tz is None and isinstance(wall.tzinfo, ZoneInfo) else tz, where=where)
    on_the_wall = wall.tzinfo if isinstance(wall.tzinfo, ZoneInfo) else zone if wall.tzinfo is None else None
    moment = from_datetime(wall) if on_the_wall is None else moment_of(wall, on_the_wall)
    timing, name = read_timing(options, where=where)
    return Schedule(At(moment, zone.key), timing, name)


def _read(time: object, *, where: str) -> datetime:
    if isinstance(time, datetime):
        return time
    example = 'write at("2026-12-24T18:00"), or hand in a datetime'
    if not isinstance(time, str):
        raise ConfigError(f"{where}: not a time: {example}")
    words = time.strip()
    try:
        return datetime.fromisoformat(words)
    except ValueError:
        pass
    try:
        daily = time_of_day.fromisoformat(words.removeprefix("T"))
    except ValueError:
        raise ConfigError(f"{where}: not a time: {example}") from None
    raise ConfigError(
        f'{where}: a time without a day: {example}; for every day at that time, use cron("{daily.minute} {daily.hour} * * *")'
    )
