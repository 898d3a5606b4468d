"""`active="08:00-20:00"` and `days="mon-fri"`: the active hours and days of a schedule."""

from __future__ import annotations

import re

from wakeful.errors import ConfigError, did_you_mean

WEEK = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
SHORT = tuple(day[:3] for day in WEEK)
MINUTES = 24 * 60

_TIME = re.compile(r"([0-9]{1,2})(?::([0-9]{2}))?")


def read_active(text: str, *, where: str) -> tuple[int, int]:
    """Hours like "08:00-20:00" as minutes of the day, from and until. If they end on the next day, the end is after 24:00."""
    example = 'write it as "08:00-20:00", or "22:00-06:00" for a night'
    if not isinstance(text, str):
        raise ConfigError(f"{where}: active is a text: {example}, not {text!r}")
    first, dash, last = text.replace(" ", "").partition("-")
    start, end = _minute(first), _minute(last)
    if not dash or start is None or end is None:
        raise ConfigError(f"{where}: active={text!r} cannot be read: {example}")
    if (start, end) == (0, MINUTES) or start < end < MINUTES:
        pass
    elif start >= MINUTES:
        raise ConfigError(
            f"{where}: active={text!r} begins after the end of the day: write 00:00 for the beginning of the day"
        )
    elif start == end:
        raise ConfigError(
            f'{where}: active={text!r} ends when it begins: for the whole day, write "00:00-24:00" or leave it out'
        )
    elif end < start:
        end += MINUTES
    return start, end


def written_active(active: tuple[int, int]) -> str:
    start, end = active
    return f"{_clock(start)}-{_clock(end if end <= MINUTES else end - MINUTES)}"


def read_days(text: str, *, where: str) -> tuple[int, ...]:
    """Days like "mon-fri" or "mon,wed-fri" as numbers, 0 is Monday. A range may span the weekend: "sat-mon"."""
    example = 'write them as "mon-fri", "sat,sun" or "mon,wed-fri"'
    if not isinstance(text, str):
        raise ConfigError(f"{where}: days is a text: {example}, not {text!r}")
    found: set[int] = set()
    for part in text.lower().replace(" ", "").split(","):
        first, dash, last = part.partition("-")
        start = _day(first, text, example, where)
        end = _day(last, text, example, where) if dash else start
        found.update((start + step) % 7 for step in range((end - start) % 7 + 1))
    return tuple(sorted(found))


def written_days(days: tuple[int, ...]) -> str:
    """Days as text; three or more in a row become a range."""
    parts: list[str] = []
    row: list[int] = []
    for day in (*days, None):
        if row and day == row[-1] + 1:
            row.append(day)
            continue
        parts += [f"{SHORT[row[0]]}-{SHORT[row[-1]]}"] if len(row) > 2 else [SHORT[one] for one in row]
        row = [] if day is None else [day]
    return ",".join(parts)


def _minute(text: str) -> int | None:
    match = _TIME.fullmatch(text)
    if match is None:
        return None
    hour, minute = int(match[1]), int(match[2] or 0)
    return hour * 60 + minute if minute < 60 and hour * 60 + minute <= MINUTES else None


def _clock(minute: int) -> str:
    return f"{minute // 60:02}:{minute % 60:02}"


def _day(word: str, text: str, example: str, where: str) -> int:
    for names in (SHORT, WEEK):
        if word in names:
            return names.index(word)
    if not word:
        raise ConfigError(f"{where}: days={text!r} cannot be read: {example}")
    raise ConfigError(
        f'{where}: days={text!r}: there is no day "{word}".{did_you_mean(word, WEEK + SHORT)} {example.capitalize()}'
    )
