"""`cron("0 8 * * 1-5", tz="Europe/London")`: the five fields of crontab, by the clock on the wall."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from wakeful.clock import SECOND, Microseconds, from_datetime
from wakeful.errors import ConfigError, did_you_mean
from wakeful.triggers.schedule import Schedule, read_timing
from wakeful.triggers.zones import local, zone_named

NAMED = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}


@dataclass(frozen=True, slots=True)
class Cron:
    """Instants by the fields of crontab. On the days on which clocks change it does as Debian's cron does."""

    expression: str
    zone: str
    _zone: ZoneInfo = field(init=False, repr=False, compare=False)

    kind: ClassVar[str] = "cron"

    def __post_init__(self) -> None:
        object.__setattr__(self, "_zone", zone_named(self.zone, where=f'cron("{self.expression}")'))

    def _simulated(self, moment: Microseconds, *, reverse: bool = False) -> Iterator[Any]:
        # Begins at the whole second: what lies behind it is decided by whoever asks.
        start = local(moment // SECOND * SECOND, self._zone)
        return CronSim(NAMED.get(self.expression, self.expression), start, reverse=reverse)

    def next(self, after: Microseconds) -> Microseconds | None:
        for found in self._simulated(after):
            return from_datetime(found)
        return None

    def previous(self, before: Microseconds) -> Microseconds | None:
        start = before if before % SECOND == 0 else before + SECOND
        for found in self._simulated(start, reverse=True):
            return from_datetime(found)
        return None

    def count(self, first: Microseconds, last: Microseconds, most: int) -> tuple[int, Microseconds]:
        count, seen = 0, first
        for found in self._simulated(first - SECOND):
            instant = from_datetime(found)
            if instant > last or count == most:
                break
            count, seen = count + 1, instant
        return count, seen

    def describe(self) -> str:
        return f'cron("{self.expression}", tz="{self.zone}")'

    def definition(self) -> dict[str, Any]:
        return {"kind": self.kind, "expression": self.expression, "zone": self.zone}


def cron(expression: str, *, tz: str | None = None, **options: Any) -> Schedule:
    """Wake at the times of a crontab line's five fields, or of `@daily` and its like, by the clock on the wall in `tz`.

    Options, as for `every` and `at`: name, overlap, catch_up, max_age, max_count, grace, jitter, expires, starts_within,
    ends_within.
    """
    where = f"cron({expression!r})"
    if not isinstance(expression, str):
        raise ConfigError(f'{where}: the fields are a text, like cron("0 8 * * 1-5")')
    words = " ".join(expression.split())
    if words.startswith("@") and words not in NAMED:
        hint = " It has no moment of its own here: use on(…)" if words == "@reboot" else did_you_mean(words, NAMED)
        raise ConfigError(f"{where}: there is no {words}.{hint}")
    fields = NAMED.get(words, words).split()
    if len(fields) != 5:
        raise ConfigError(
            f"{where}: {len(fields)} field(s), and there are five: minute, hour, day of month, month, day of week"
        )
    zone = zone_named(tz, where=where)
    try:
        CronSim(" ".join(fields), local(0, zone))
    except CronSimError as error:
        raise ConfigError(f"{where}: {error}") from None
    rule = Cron(words, zone.key)
    if rule.next(0) is None:
        raise ConfigError(f"{where}: it never fires")
    timing, name = read_timing(options, where=where)
    return Schedule(rule, timing, name)
