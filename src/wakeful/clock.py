"""Time, in one place: integers of microseconds since 1970, UTC.

Every part that needs the time gets a `Clock`. In production that is `SystemClock`; tests pass a `VirtualClock` and move
it themselves. On PostgreSQL stored times come from the database's own clock (`Clock.for_database` is None), so that
machines whose clocks differ agree on leases and due times. A virtual clock overrides that too.
"""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Protocol

Microseconds = int

SECOND: Microseconds = 1_000_000
_UNITS = {
    "us": 1,
    "ms": 1_000,
    "s": SECOND,
    "m": 60 * SECOND,
    "h": 3600 * SECOND,
    "d": 86400 * SECOND,
    "w": 604800 * SECOND,
}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(us|ms|s|m|h|d|w)")

Duration = str | timedelta | int | float


class Clock(Protocol):
    """A source of time."""

    def now(self) -> Microseconds:
        """The current time, for calculations inside this process."""
        ...

    def for_database(self) -> Microseconds | None:
        """The value of `:now` for a PostgreSQL statement; None lets the database read its own clock."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> Microseconds:
        return time.time_ns() // 1000

    def for_database(self) -> Microseconds | None:
        return None


class VirtualClock:
    """A clock that stands still until it is moved. `start`: a datetime, text like "2026-03-01T08:00Z", or microseconds."""

    def __init__(self, start: Microseconds | datetime | str = 1_767_225_600 * SECOND) -> None:
        self._now = _read_start(start)

    def now(self) -> Microseconds:
        return self._now

    def for_database(self) -> Microseconds | None:
        return self._now

    def move(self, by: Duration) -> None:
        """Move the clock forward by a duration."""
        self._now += duration(by)


def _read_start(start: object) -> Microseconds:
    """Read the start of a virtual clock. A wrong value is refused here, where its author sees it, not at first use."""
    if isinstance(start, datetime):
        return from_datetime(start)
    if isinstance(start, str):
        try:
            return from_datetime(datetime.fromisoformat(start.strip()))
        except ValueError:
            message = (
                f'VirtualClock({start!r}): write a time like "2026-03-01T08:00Z" or "2026-03-01", or give a datetime'
            )
            raise ValueError(message) from None
    if isinstance(start, int) and not isinstance(start, bool):
        return start
    message = (
        f'VirtualClock({start!r}): give a datetime, text like "2026-03-01T08:00Z", or whole microseconds since 1970'
    )
    raise TypeError(message)


def duration(value: Duration) -> Microseconds:
    """Read a duration: "30s", "10m", "1h30m", "2d", a timedelta, or a number of seconds.

    >>> duration("1h30m") == 5400 * SECOND
    True
    """
    if isinstance(value, timedelta):
        return round(value.total_seconds() * SECOND)
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        message = f'{value!r} is not a duration: write it as "30s", "10m", "2d" or a timedelta'
        raise TypeError(message)
    if isinstance(value, int | float):
        return round(value * SECOND)
    text = value.strip()
    total = 0.0
    position = 0
    while match := _DURATION.match(text, position):
        total += float(match[1]) * _UNITS[match[2]]
        position = match.end()
        while position < len(text) and text[position] == " ":
            position += 1
    if position != len(text) or not text:
        message = f'{value!r} is not a duration: write it as "500ms", "30s", "10m", "1h30m", "2d" or a timedelta'
        raise ValueError(message)
    return round(total)


def written(span: Microseconds) -> str:
    """A span in the form that `duration` reads: 30s, 10m, 1h30m, 2d.

    >>> written(5400 * SECOND)
    '1h30m'
    """
    parts = []
    for unit in ("d", "h", "m", "s", "ms", "us"):
        count, span = divmod(span, _UNITS[unit])
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"


def seconds(value: Microseconds) -> float:
    """Microseconds as seconds, for the standard library."""
    return value / SECOND


def from_datetime(moment: datetime) -> Microseconds:
    """A datetime as microseconds. A datetime without a zone counts as UTC."""
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    delta = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (delta.days * 86400 + delta.seconds) * SECOND + delta.microseconds


def to_datetime(moment: Microseconds) -> datetime:
    """Microseconds as a datetime in UTC."""
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=moment)


def to_text(moment: Microseconds | None) -> str | None:
    """Microseconds as RFC 3339 text, for JSON and people."""
    if moment is None:
        return None
    whole, rest = divmod(moment, SECOND)
    return f"{_second(whole)}.{rest:06d}Z" if rest else f"{_second(whole)}Z"


def to_second(moment: Microseconds | None) -> str | None:
    """Like `to_text`, without fractions of a second: for sentences, where microseconds are noise."""
    return None if moment is None else f"{_second(moment // SECOND)}Z"


@lru_cache(maxsize=1024)  # times that are shown together are often in the same second
def _second(whole: int) -> str:
    return to_datetime(whole * SECOND).isoformat().removesuffix("+00:00")


def readable(span: Microseconds | None) -> str:
    """A span of time for people: 850 µs, 12.3 ms, 4.20 s, 3 m 20 s, 2 h 5 m, 3 d 4 h."""
    if span is None:
        return "–"
    if span < 1_000:
        return f"{span} µs"
    if span < SECOND:
        return f"{span / 1_000:.3g} ms"
    if span < 60 * SECOND:
        return f"{span / SECOND:.3g} s"
    whole = span // SECOND
    if whole < 3600:
        return f"{whole // 60} m {whole % 60} s"
    if whole < 86400:
        return f"{whole // 3600} h {whole % 3600 // 60} m"
    return f"{whole // 86400} d {whole % 86400 // 3600} h"
