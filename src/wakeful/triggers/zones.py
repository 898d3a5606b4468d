"""Time zones by name, and local time in them.

A moment is microseconds since 1970, UTC. Local time ("wall") is counted in the same unit, so between two clock changes the two
differ by one number, the offset. A day is the number of local days since 1970.

    moments   ───────────┬──────────────┬───────────▶       spans: the offset that applies, from when to when
    offset         0     │    + 1 h     │    0
    local      00:59:59 ─┘2:00   1:59:59└ 1:00              a gap is never shown; after setting back, times repeat
"""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import cache, lru_cache
from itertools import pairwise
from zoneinfo import ZoneInfo, available_timezones

from wakeful.clock import SECOND, Microseconds, from_datetime, to_datetime
from wakeful.errors import ConfigError, did_you_mean
from wakeful.settings import time_zone

DAY: Microseconds = 86400 * SECOND
# No real clock changes twice within less than this.
_STEP: Microseconds = 12 * 3600 * SECOND

Span = tuple[Microseconds, Microseconds, Microseconds]


def zone_named(name: str | ZoneInfo | None, *, where: str) -> ZoneInfo:
    """The zone of this name; None: the one of the settings. Raises ConfigError if it does not exist."""
    wanted = time_zone() if name is None else name.key if isinstance(name, ZoneInfo) else name
    try:
        return _zone(wanted)
    except (KeyError, ValueError, OSError, TypeError):
        origin = " (from WAKEFUL_TIME_ZONE)" if name is None else ""
        hint = did_you_mean(str(wanted), available_timezones())
        guess = hint if "Did" in hint else ""
        message = f'{where}: there is no zone {wanted!r}{origin}.{guess} Zones are named like "Europe/London"'
        raise ConfigError(message) from None


@cache
def _zone(name: str) -> ZoneInfo:
    return ZoneInfo(name)


def local(moment: Microseconds, zone: ZoneInfo) -> datetime:
    """Local time at a moment."""
    return to_datetime(moment).astimezone(zone)


def shown_time(text: str | None) -> str:
    """A time of the API (RFC 3339) for people, in local time of WAKEFUL_TIME_ZONE: 2026-11-16 09:00:00 Europe/London."""
    if text is None:
        return "an unknown time"
    zone = zone_named(None, where="the time zone")
    wall = datetime.fromisoformat(text).astimezone(zone).replace(tzinfo=None)
    return f"{wall.isoformat(sep=' ')} {zone.key}"


def moment_of(wall: datetime, zone: ZoneInfo) -> Microseconds:
    """The moment at which local time is `wall`. If it occurs twice, the first, unless `fold` asks for the second; if the clock skips
    it, the moment at which the clock jumps.
    """
    shown = from_datetime(wall.replace(tzinfo=None))
    found = showings(shown, zone)
    return found[-1 if wall.fold else 0] if found else jump_over(shown, zone)


def first_showing(wall: Microseconds, zone: ZoneInfo) -> Microseconds:
    """`moment_of`, for local time in microseconds."""
    found = showings(wall, zone)
    return found[0] if found else jump_over(wall, zone)


def showings(wall: Microseconds, zone: ZoneInfo) -> list[Microseconds]:
    """Every moment with this local time: usually one, two after a clock was set back, none if the clock skips it."""
    return [wall - offset for since, until, offset in spans(wall // DAY, zone) if since <= wall - offset < until]


def jump_over(wall: Microseconds, zone: ZoneInfo) -> Microseconds:
    """The moment at which the clock skips this local time."""
    for (_, _, before), (jump, _, after) in pairwise(spans(wall // DAY, zone)):
        if jump + before <= wall < jump + after:
            return jump
    message = f"local time {to_datetime(wall).replace(tzinfo=None)} exists in {zone.key}: no clock change skips it"
    raise ValueError(message)


def day_of(moment: Microseconds, zone: ZoneInfo) -> int:
    """The local day of a moment."""
    return (moment + _offset(moment, zone)) // DAY


@lru_cache(maxsize=8192)
def spans(day: int, zone: ZoneInfo) -> tuple[Span, ...]:
    """The offsets that apply around a local day, each with its first and last moment: one, on most days.

    They reach one day further on both sides, because no offset is longer than that: every moment of the day is included.
    """
    first, last = (day - 1) * DAY // _STEP, (day + 2) * DAY // _STEP
    since, offset = first * _STEP, _offset_at_step(first, zone)
    found = []
    for step in range(first + 1, last + 1):
        if _offset_at_step(step, zone) != offset:
            change = _change((step - 1) * _STEP, step * _STEP, zone)
            found.append((since, change, offset))
            since, offset = change, _offset_at_step(step, zone)
    return (*found, (since, last * _STEP, offset))


# Neighbouring days need the same offsets.
@lru_cache(maxsize=32768)
def _offset_at_step(step: int, zone: ZoneInfo) -> Microseconds:
    return _offset(step * _STEP, zone)


def _change(before: Microseconds, after: Microseconds, zone: ZoneInfo) -> Microseconds:
    """The moment between these two at which the offset changes. Clocks change at whole seconds."""
    offset = _offset(before, zone)
    low, high = before // SECOND, after // SECOND
    while high - low > 1:
        middle = (low + high) // 2
        if _offset(middle * SECOND, zone) == offset:
            low = middle
        else:
            high = middle
    return high * SECOND


def _offset(moment: Microseconds, zone: ZoneInfo) -> Microseconds:
    offset = datetime.fromtimestamp(moment // SECOND, zone).utcoffset() or timedelta()
    return (offset.days * 86400 + offset.seconds) * SECOND
