"""`at("2026-12-24T18:00", tz="Europe/London")`: once."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar

from wakeful.clock import Microseconds, from_datetime
from wakeful.errors import ConfigError
from wakeful.triggers.schedule import Schedule, read_timing
from wakeful.triggers.zones import local, moment_of, zone_named


@dataclass(frozen=True, slots=True)
class At:
    """One instant."""

    moment: Microseconds
    zone: str

    kind: ClassVar[str] = "at"

    def next(self, after: Microseconds) -> Microseconds | None:
        return self.moment if after < self.moment else None

    def previous(self, before: Microseconds) -> Microseconds | None:
        return self.moment if before > self.moment else None

    def count(self, first: Microseconds, last: Microseconds, most: int) -> tuple[int, Microseconds]:  # noqa: ARG002
        return int(first <= self.moment <= last), self.moment

    def describe(self) -> str:
        wall = local(self.moment, zone_named(self.zone, where="at"))
        return f'at("{wall.replace(tzinfo=None).isoformat()}", tz="{self.zone}")'

    def definition(self) -> dict[str, Any]:
        return {"kind": self.kind, "moment": self.moment, "zone": self.zone}


def at(time: str | datetime, *, tz: str | None = None, **options: Any) -> Schedule:
    """Wake once, at this time: a datetime, or a text like "2026-12-24T18:00"."""
    where = f"at({time!r})"
    zone = zone_named(tz, where=where)
    try:
        wall = time if isinstance(time, datetime) else datetime.fromisoformat(time)
    except (ValueError, TypeError):
        raise ConfigError(f'{where}: no time: write "2026-12-24T18:00" or hand in a datetime') from None
    moment = moment_of(wall, zone) if wall.tzinfo is None else from_datetime(wall)
    timing, name = read_timing(options, where=where)
    return Schedule(At(moment, zone.key), timing, name)
