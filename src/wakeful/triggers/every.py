"""`every("30m", active="08:00-20:00", days="mon-fri")`: at a steady interval."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from wakeful.clock import SECOND, Duration, Microseconds, duration, readable
from wakeful.errors import ConfigError
from wakeful.triggers.schedule import Schedule, read_timing
from wakeful.triggers.zones import zone_named


@dataclass(frozen=True, slots=True)
class Every:
    """Instants at an interval, counted from 1970 UTC; inside hours, from their start on each day."""

    interval: Microseconds
    zone: str
    active: tuple[int, int] | None = None  # minutes of the day
    days: tuple[int, ...] | None = None  # 0 is Monday

    kind: ClassVar[str] = "every"

    def next(self, after: Microseconds) -> Microseconds | None:
        return (after // self.interval + 1) * self.interval

    def previous(self, before: Microseconds) -> Microseconds | None:
        return (before - 1) // self.interval * self.interval

    def count(self, first: Microseconds, last: Microseconds, most: int) -> tuple[int, Microseconds]:  # noqa: ARG002 nothing to save
        count = (last - first) // self.interval + 1
        return count, first + (count - 1) * self.interval

    def describe(self) -> str:
        return f'every("{readable(self.interval)}", tz="{self.zone}")'

    def definition(self) -> dict[str, Any]:
        shown: dict[str, Any] = {"kind": self.kind, "interval": self.interval, "zone": self.zone}
        return shown


def every(
    interval: Duration,
    *,
    active: str | None = None,  # noqa: ARG001
    days: str | None = None,  # noqa: ARG001
    tz: str | None = None,
    **options: Any,
) -> Schedule:
    """Wake at an interval; with `active` and `days` only inside those hours, counted from their start on each day."""
    where = f"every({interval!r})"
    try:
        span = duration(interval)
    except (ValueError, TypeError) as error:
        raise ConfigError(f"{where}: {error}") from None
    if span < SECOND:
        raise ConfigError(f"{where}: an interval is at least a second")
    zone = zone_named(tz, where=where)
    timing, name = read_timing(options, where=where)
    return Schedule(Every(span, zone.key), timing, name)
