"""What the occurrences of a schedule are, found by another way than the one under test: as a daemon lives through them.

It walks over UTC minute by minute and looks at the clock on the wall. For lines of crontab it is the loop of Debian's cron, with its
virtual time that stands still while the clock repeats an hour, and runs after it when the clock jumps. It reads the fields by itself.

    for sample in samples(200, seed=5):
        sample.schedule()                  what the product makes of it
        sample.occurrences(first, last)       what should come out
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

import wakeful
from wakeful.triggers.schedule import Schedule

MINUTE = 60_000_000  # microseconds
MONTH = 30 * 24 * 60  # minutes
ZONES = ("Europe/London", "America/New_York", "Australia/Lord_Howe", "America/Santiago")
# A year with both changes of the clock in each of these zones.
YEAR = (datetime(2026, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC))

# From here the daemon is awake, so that its virtual time has settled when the first occurrence is asked for.
_RUNNING_BEFORE = 2 * 24 * 60
# The longest change of the clock that cron takes for a change of the clock.
_CHANGE = 3 * 60
_DAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]


def moment(when: datetime) -> int:
    return int(when.timestamp()) * 1_000_000


def walls(zone: str, first: int, last: int) -> list[int]:
    """What the clock on the wall shows in each minute of UTC from the first to the last, in minutes since 1970."""
    months = range(first // MONTH, last // MONTH + 1)
    shown = [wall for month in months for wall in _walls(zone, month)] if len(months) > 1 else _walls(zone, months[0])
    start = first - months[0] * MONTH
    return shown[start : start + last - first + 1]


@lru_cache(maxsize=100)
def _walls(zone: str, month: int) -> list[int]:
    """Of thirty days. The clock is looked at every quarter of an hour: it changes at no other minutes."""
    info = ZoneInfo(zone)
    found: list[int] = []
    for quarter in range(month * MONTH, (month + 1) * MONTH, 15):
        offset = datetime.fromtimestamp(quarter * 60, info).utcoffset()
        assert offset is not None
        ahead = int(offset.total_seconds()) // 60
        found.extend(range(quarter + ahead, quarter + ahead + 15))
    return found


# crontab


class Line:
    """A line of crontab: whether it fits a minute of the wall, and whether cron calls it wild."""

    def __init__(self, expression: str) -> None:
        minute, hour, day, month, weekday = expression.lower().split()
        self.minutes = _set(minute, 0, 59)
        self.hours = _set(hour, 0, 23)
        self.days = _set(day, 1, 31)
        self.months = _set(month, 1, 12, _MONTHS, 1)
        self.weekdays = {number % 7 for number in _set(weekday, 0, 7, _DAYS, 0)}
        self.both = day[0] == "*" or weekday[0] == "*"
        self.wild = minute[0] == "*" or hour[0] == "*"
        self.times = [minute in self.minutes and hour in self.hours for hour in range(24) for minute in range(60)]
        self._seen: dict[int, bool] = {}

    def fits(self, wall: int) -> bool:
        return self.times[wall % 1440] and self._day(wall // 1440)

    def _day(self, day: int) -> bool:
        if day not in self._seen:
            there = date(1970, 1, 1) + timedelta(days=day)
            month, week = there.day in self.days, there.isoweekday() % 7 in self.weekdays
            self._seen[day] = there.month in self.months and (month and week if self.both else month or week)
        return self._seen[day]


def _set(text: str, low: int, high: int, names: list[str] | None = None, base: int = 0) -> set[int]:
    def number(word: str) -> int:
        return names.index(word) + base if names and word in names else int(word)

    found: set[int] = set()
    for term in text.split(","):
        span, _, step = term.partition("/")
        first, dash, last = span.partition("-")
        start, end = (low, high) if span == "*" else (number(first), number(last if dash else first))
        found.update(range(start, end + 1, int(step or 1)))
    return found


def cron_instants(expression: str, zone: str, first: int, last: int) -> list[int]:
    """The minutes of UTC at which Debian's cron starts the line."""
    line, begin = Line(expression), first - _RUNNING_BEFORE
    shown, times = walls(zone, begin, last), line.times
    found = []
    virtual = shown[0] - 1
    for minute, wall in enumerate(shown, begin):
        behind = wall - virtual
        if behind == 1:
            virtual = wall
            started = times[wall % 1440] and line.fits(wall)
        elif 1 < behind <= _CHANGE:
            missed = range(wall - behind + 1, wall + 1)
            started = line.fits(wall) if line.wild else any(map(line.fits, missed))
            virtual = wall
        elif -_CHANGE < behind <= 0:
            started = line.wild and line.fits(wall)
        else:
            started, virtual = line.fits(wall), wall
        if started and minute >= first:
            found.append(minute)
    return found


# every


def every_instants(
    interval: int, active: tuple[int, int], days: set[int], zone: str, first: int, last: int
) -> list[int]:
    """As somebody does it who looks at the clock: opens when it is late enough on a day, closes when it is late enough, and counts
    the minutes in between.
    """
    begin = first - _RUNNING_BEFORE
    shown = walls(zone, begin, last)
    found = []
    latest = shown[0]
    day = shown[0] // 1440 - 1
    opens, closes = (day * 1440 + minute for minute in active)
    opened: int | None = None
    for minute, wall in enumerate(shown, begin):
        latest = max(latest, wall)
        if latest >= closes:
            opened = None
            while latest >= closes:
                day, opens, closes = day + 1, opens + 1440, closes + 1440
        if opened is None and latest >= opens:
            opened = minute
        if opened is not None and (minute - opened) % interval == 0 and (day + 3) % 7 in days and minute >= first:
            found.append(minute)
    return found


# samples


@dataclass(frozen=True)
class Sample:
    """A schedule as somebody writes it, and how to find its occurrences without it."""

    code: str
    find: Callable[[int, int], list[int]]

    def __repr__(self) -> str:
        return self.code

    def schedule(self, **options: object) -> Schedule:
        names = {name: getattr(wakeful, name) for name in ("cron", "every")}
        call = self.code[:-1] + "".join(f", {name}={value!r}" for name, value in options.items()) + ")"
        made: Schedule = eval(call, names)  # noqa: S307 our own text
        return made

    def occurrences(self, first: int, last: int) -> list[int]:
        """From the first moment up to and with the last, in microseconds."""
        return [minute * MINUTE for minute in self.find(-(-first // MINUTE), last // MINUTE)]


def samples(count: int, *, seed: int, rare: bool = False) -> Iterator[Sample]:
    """Schedules at random, the same for the same seed. Rare ones have few occurrences a day."""
    dice = random.Random(seed)
    for number in range(count):
        zone = ZONES[number % len(ZONES)]
        yield _line(dice, zone, rare=rare) if dice.random() < 0.6 else _interval(dice, zone, rare=rare)


def _line(dice: random.Random, zone: str, *, rare: bool) -> Sample:
    minute = dice.choice(
        ["0", "30", "15,45", str(dice.randrange(60))] + ([] if rare else ["*/15", "*/7", "5-20/5", "*"])
    )
    # Most often around the hours at which clocks change.
    hours = [str(dice.randrange(24)), dice.choice("0123"), "0-3", "1,2", "23,0", "*/5", "*/6"]
    hour = dice.choice(hours + ([] if rare else ["*", "*", "*/2", "8-18"]))
    day = dice.choice(["*", "*", "*", "*", "1", "*/3", "1-15", "25-31", str(dice.randrange(1, 29))])
    month = dice.choice(["*", "*", "*", "*", "mar-nov", "3,4,9,10,11", "*/2"])
    weekday = dice.choice(["*", "*", "*", "mon-fri", "0", "6,7", "SUN", "*/2"])
    expression = f"{minute} {hour} {day} {month} {weekday}"
    return Sample(
        f'cron("{expression}", tz="{zone}")', lambda first, last: cron_instants(expression, zone, first, last)
    )


def _interval(dice: random.Random, zone: str, *, rare: bool) -> Sample:
    interval = dice.choice([90, 240, 300, 480, 700, 1440] if rare else [1, 7, 15, 30, 45, 60, 90, 240, 420, 1440])
    opening = dice.choice([0, 60, 90, 120, 150, 480, 1320, 1410, dice.randrange(1440)])
    closing = (opening + dice.choice([30, 60, 240, 720, 1439, dice.randrange(1, 1440)])) % 1440
    days = sorted(dice.sample(range(7), dice.randrange(1, 8)))
    given = dice.choice(["both", "active", "days"])
    window = (opening, closing if closing > opening else closing + 1440) if given != "days" else (0, 1440)
    taken = set(days) if given != "active" else set(range(7))
    names = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
    active = f', active="{_clock(opening)}-{_clock(closing)}"' if given != "days" else ""
    on = f', days="{",".join(names[day] for day in days)}"' if given != "active" else ""
    return Sample(
        f'every("{interval}m"{active}{on}, tz="{zone}")',
        lambda first, last: every_instants(interval, window, taken, zone, first, last),
    )


def _clock(minute: int) -> str:
    return f"{minute // 60:02}:{minute % 60:02}"
