"""Zones of time, by their names, and local times in them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo, available_timezones

from wakeful.clock import SECOND, Microseconds, from_datetime, to_datetime
from wakeful.errors import ConfigError, did_you_mean
from wakeful.settings import time_zone

EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 on the wall


def zone_named(name: str | None, *, where: str) -> ZoneInfo:
    """The zone of this name; None: the one of the settings. ConfigError for one that does not exist."""
    wanted = time_zone() if name is None else name
    try:
        return _zone(wanted)
    except (KeyError, ValueError, OSError, TypeError):
        origin = " (from WAKEFUL_TIME_ZONE)" if name is None else ""
        known = did_you_mean(str(wanted), available_timezones())
        message = f'{where}: there is no zone {wanted!r}{origin}.{known} Zones are named like "Europe/London"'
        raise ConfigError(message) from None


@cache
def _zone(name: str) -> ZoneInfo:
    return ZoneInfo(name)


def local(moment: Microseconds, zone: ZoneInfo) -> datetime:
    """What the clock on the wall shows at a moment."""
    return to_datetime(moment).astimezone(zone)


def moment_of(wall: datetime, zone: ZoneInfo) -> Microseconds:
    """When the clock on the wall shows this. Where it does so twice, the first time; where the clock jumps over it, the moment
    at which it jumps.
    """
    aware = wall.replace(tzinfo=zone, fold=0)
    back = aware.astimezone(UTC).astimezone(zone)
    if back.replace(tzinfo=None, fold=0) == wall.replace(tzinfo=None, fold=0):
        return from_datetime(aware)
    # Inside a gap: what the old offset and the new one say differ, and between the two lies the jump.
    low = from_datetime(aware.replace(fold=1))
    high = from_datetime(aware)
    low, high = min(low, high), max(low, high)
    before = to_datetime(low).astimezone(zone).utcoffset()
    while high - low > SECOND:
        middle = (low + high) // 2
        if to_datetime(middle).astimezone(zone).utcoffset() == before:
            low = middle
        else:
            high = middle
    return round_up(high)


def round_up(moment: Microseconds) -> Microseconds:
    """Zones change at whole seconds."""
    return -(-moment // SECOND) * SECOND if moment % SECOND > SECOND // 2 else moment // SECOND * SECOND


def day_after(day: datetime, days: int = 1) -> datetime:
    return day + timedelta(days=days)
