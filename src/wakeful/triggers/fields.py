"""The five fields of crontab: parsed by cronsim; errors name the wrong field and its allowed values.

cronsim can also walk from occurrence to occurrence, but is not used for that: when clocks change it can return a moment before the
one it was asked for, skip hours where the clock moves by thirty minutes, and walk back differently than forward.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime

from cronsim import CronSim, CronSimError
from cronsim.cronsim import DAYS_IN_MONTH, Field

from wakeful.clock import SECOND, Microseconds
from wakeful.errors import ConfigError, did_you_mean
from wakeful.stored_errors import storable

NAMED = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}

LONGEST = 500

# In crontab's order: the name of each field and its allowed values.
_FIELDS = {
    Field.MINUTE: ("minute", "0 to 59"),
    Field.HOUR: ("hour", "0 to 23"),
    Field.DAY: ("day of month", "1 to 31, L for the last day or LW for the last weekday"),
    Field.MONTH: ("month", "1 to 12 or JAN to DEC"),
    Field.DOW: (
        "day of week",
        "0 to 7, where 0 and 7 are Sunday, or SUN to SAT; 1#2 is the second Monday, 5L the last Friday",
    ),
}


@dataclass(frozen=True, slots=True)
class CronFields:
    """The parsed fields: the times of a day, and the days."""

    times: tuple[Microseconds, ...]  # since local midnight
    wild: bool  # the minute or the hour begins with a star: Debian's cron then follows local time
    _read: CronSim

    def take_month(self, day: date) -> bool:
        return day.month in self._read.months

    def take(self, day: date) -> bool:
        return day.month in self._read.months and self._read.match_day(day)


def read_fields(expression: str) -> CronFields:
    """The fields of an expression that `checked` accepted."""
    parts = NAMED.get(expression, expression).split()
    read = CronSim(" ".join(parts), datetime(1970, 1, 1))  # noqa: DTZ001 only its fields are used
    times = tuple((hour * 60 + minute) * 60 * SECOND for hour in sorted(read.hours) for minute in sorted(read.minutes))
    return CronFields(times, parts[0].startswith("*") or parts[1].startswith("*"), read)


def checked(expression: object, *, where: str) -> str:
    """The expression, with single spaces. Raises ConfigError, naming the field that is wrong."""
    if not isinstance(expression, str):
        raise ConfigError(f'{where}: the fields must be text, like cron("0 8 * * 1-5")')
    words = " ".join(storable(expression).split())
    if len(words) > LONGEST:
        raise ConfigError(f"{where[:40]}…: {len(words):,} characters, but at most {LONGEST} are allowed")
    if words.startswith("@"):
        return _named(words.lower(), where=where)
    parts = words.split()
    if len(parts) == 6:
        raise ConfigError(
            f"{where}: six fields instead of five: minute, hour, day of month, month, day of week. Seconds are not supported: "
            'leave them out, or write every("10s")'
        )
    if len(parts) != 5:
        raise ConfigError(
            f"{where}: {_counted(len(parts))} instead of five: minute, hour, day of month, month, day of week"
        )
    for field, part in zip(_FIELDS, parts, strict=True):
        for term in part.split(","):
            _check(field, term.upper(), term, where=where)
    try:
        CronSim(words, datetime(1970, 1, 1))  # noqa: DTZ001 only its fields are read
    except CronSimError:
        # Each field is valid by itself, but no selected month has such a day.
        months = sorted(month for month in Field.MONTH.parse(parts[3].upper()) if isinstance(month, int))
        longest = max(DAYS_IN_MONTH[month] for month in months)
        raise ConfigError(
            f"{where}: it never fires: the day of month is {parts[2]!r}, but month {parts[3]} has at most {longest} days"
        ) from None
    return words


def _named(name: str, *, where: str) -> str:
    if name in NAMED:
        return name
    if name == "@reboot":
        raise ConfigError(f"{where}: there is no @reboot: agents wake on events and times, not when a process starts")
    raise ConfigError(f"{where}: there is no {name}.{did_you_mean(name, NAMED)}")


def _counted(fields: int) -> str:
    return "no fields" if fields == 0 else "one field" if fields == 1 else f"{fields} fields"


def _check(field: Field, term: str, given: str, *, where: str) -> None:
    try:
        field.parse(term)
    except CronSimError:
        name, may_be = _FIELDS[field]
        raise ConfigError(f"{where}: the {name} is {given!r}: {_advice(field, term) or may_be}") from None


def _advice(field: Field, term: str) -> str | None:
    """What is wrong with a term whose numbers are valid; None if a number is wrong."""
    values, slash, step = term.partition("/")
    if slash and not (step.isdecimal() and int(step) > 0):
        return "a step is a whole number from 1 on, like */5"
    first, dash, last = values.partition("-")
    if not dash:
        return None
    try:
        low, high = field.int(first), field.int(last)
    except CronSimError:
        return None
    if high >= low:
        return None
    top, bottom = {Field.MINUTE: (59, 0), Field.HOUR: (23, 0), Field.DAY: (31, 1)}.get(field, (None, None))
    if top is None or slash:
        return "a range goes upwards: write it as two, with a comma between them"
    return f"a range goes upwards: write {first}-{top},{bottom}-{last}"
