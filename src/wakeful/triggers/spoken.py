"""Times in spoken English: "in 20 minutes", "tomorrow 9am", "next friday at 10:00", "24 dec 18:00".

A small grammar, in local time of one zone:

    SPAN                       in 20 minutes · in 1h30m · in half an hour · in 3 days
    DAY and CLOCK, either way  tomorrow at 9:30 · 6pm on 24 dec · in 3 days at 9am
    CLOCK alone                at 3pm · 15:00 · noon: today, and midnight is the next one
    tonight                    20:00
    DAY and PART of it         tomorrow morning (9:00) · friday afternoon (15:00) · this evening (19:00) · tomorrow evening at 7

A text that is ambiguous, incomplete or in the past is refused, and the refusal says what was understood. Days and weeks are
calendar days, so that "in 3 days" is the same time of day; hours and minutes are exact.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from typing import ClassVar, TypeVar
from zoneinfo import ZoneInfo

from wakeful.clock import SECOND, Microseconds, from_datetime, readable
from wakeful.errors import InvalidTime, did_you_mean
from wakeful.stored_errors import storable
from wakeful.triggers.calendar_words import MONTHS, WEEKDAYS, in_words, name_among, shown_clock, shown_day
from wakeful.triggers.zones import local

T = TypeVar("T")

TONIGHT = time(20)
# The parts of a day: their hour if no time is given, and their first and last hour.
PARTS = {"morning": (9, 0, 11), "afternoon": (15, 12, 18), "evening": (19, 17, 23), "night": (20, 17, 23)}
# "tonight at 9" means 21:00; "tonight at 15:00" is refused.
NIGHT_BEGINS = 17
LATER_PARTS = frozenset({"evening", "night"})
# A date without a year is the next one. A date that has just passed is more likely a mistake than eleven months away.
JUST_PASSED = timedelta(days=90)
FURTHEST: Microseconds = 50 * 366 * 86400 * SECOND
LONGEST_TEXT = 100
EXAMPLES = '"in 20 minutes", "at 3pm", "tomorrow 9:30", "friday 10:00", "24 dec 18:00" or "2026-12-24 18:00"'

_ARTICLES = {"a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8}
_ARTICLES |= {"nine": 9, "ten": 10, "eleven": 11, "twelve": 12, "fifteen": 15, "twenty": 20, "thirty": 30, "forty": 40}
_ARTICLES |= {"fifty": 50, "sixty": 60, "ninety": 90}
_COUNTED = {"second": SECOND, "minute": 60 * SECOND, "hour": 3600 * SECOND}
_CALENDAR = {"day": 1, "week": 7}
_UNITS = {"s": "second", "sec": "second", "secs": "second", "m": "minute", "min": "minute", "mins": "minute"}
_UNITS |= {"h": "hour", "hr": "hour", "hrs": "hour", "d": "day", "w": "week"}
_UNITS |= {form: unit for unit in (*_COUNTED, *_CALENDAR) for form in (unit, f"{unit}s")}

_NUMBER_AND_UNIT = re.compile(r"(\d+(?:\.\d+)?)([a-z]+)")
_DATE_AND_CLOCK = re.compile(r"(\d{4}-\d{2}-\d{2})t(?=\d)")
_CLOCK = re.compile(r"(\d{1,2})(?::(\d{2})(?::(\d{2}))?)?(am|pm)?")
_HALF_OF_DAY = re.compile(r"(?<=\d)\s*([ap])\.?m\.?(?=\s|$)")
_DATE = re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2})")
_DAY_OF_MONTH = re.compile(r"(\d{1,2})(?:st|nd|rd|th)?")
_YEAR = re.compile(r"\d{4}")
_SLASHES = re.compile(r"(\d{1,4})[/.](\d{1,2})(?:[/.](\d{1,4}))?\.?")
_EXACT = re.compile(r"\d{4}-\d{2}-\d{2}[t ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?\s?(?:z|[+-]\d{2}:?\d{2})")


@dataclass(frozen=True, slots=True)
class Understood:
    """A moment that was understood, and its zone."""

    moment: Microseconds
    zone: ZoneInfo

    def describe(self, now: Microseconds) -> str:
        """For people: on Mon 16 Nov 2026 09:00 Europe/London (in 12 h 5 m)."""
        return in_words(self.moment, self.zone, now)


def read_time(text: str, *, now: Microseconds, zone: ZoneInfo) -> Understood:
    """Read a future time. Raises InvalidTime, which says what was understood and what to write instead."""
    return TimeReader(text, now, zone).read()


@dataclass(frozen=True, slots=True)
class _Clock:
    """A time of day, and the words for it."""

    said: str
    time: time
    twelve_hours: bool = False  # am or pm was given, or it is noon


class TimeReader:
    """Reads one text, word by word; `past.py` reads past times with it."""

    examples = EXAMPLES
    near: ClassVar[tuple[str, ...]] = ("today", "tonight", "tomorrow")

    def __init__(self, text: str, now: Microseconds, zone: ZoneInfo) -> None:
        if not isinstance(text, str) or not text.strip():
            raise InvalidTime(f"a time is missing: write {EXAMPLES}")
        if len(text) > LONGEST_TEXT:
            raise InvalidTime(f'"{storable(text[:40])}…" is too long for a time: write {EXAMPLES}')
        self.text = " ".join(storable(text).split())  # repeated in refusals, so it must be valid text
        self.now = now
        self.zone = zone
        self.wall = local(now, zone)
        self.today = self.wall.date()
        plain = _HALF_OF_DAY.sub(r"\1m", self.text.casefold().replace(",", " "))
        plain = _DATE_AND_CLOCK.sub(r"\1 ", plain).replace("o'clock", " ")
        self.words = [part for word in plain.split() for part in _apart(word)]
        self.position = 0

    def read(self) -> Understood:
        if _EXACT.fullmatch(self.text.casefold()):
            return self._exact()
        if "yesterday" in self.words:
            day = shown_day(self.today - timedelta(days=1))
            raise self.refusal(f'({day}) is past: write a time that is still to come, like "tomorrow 9am"')
        if "ago" in self.words:
            raise self.refusal('is past: write how long from now, like "in 1 minute"')
        if self.words == ["now"]:
            raise self.refusal('is now: write how long from now, like "in 1 minute"')
        return self._span() or self._day_and_clock()

    # how long from now

    def _span(self) -> Understood | None:
        """The whole text as a span: in 1 hour and 30 minutes."""
        words = self.words
        if words[-2:] == ["from", "now"]:
            words = words[:-2]
        elif words[:1] == ["in"]:
            words = words[1:]
        span = self._counted(words)
        if span is None:
            return None
        days, counted = span
        if not days and not counted:
            raise self.refusal('is now: write how long from now, like "in 1 minute"')
        start = self.now
        if days:
            start = self._moment(self.wall.replace(tzinfo=None, fold=0) + timedelta(days=days))
        return Understood(
            -(-(start + counted) // SECOND) * SECOND, self.zone
        )  # rounded up to a whole second, never early

    def _counted(self, words: list[str]) -> tuple[int, Microseconds] | None:
        """1 day and 30 minutes: the days and the rest; None if the words are not a span."""
        days, counted, read = 0, 0, 0
        while read < len(words):
            if words[read] == "and" and read:
                read += 1
                continue
            part = self._part(words[read:])
            if part is None:
                return None
            count, unit, length = part
            if unit in _CALENDAR:
                if not count.is_integer():
                    raise self.refusal(f"has a part of a {unit}: write it in hours")
                days += int(count) * _CALENDAR[unit]
            else:
                counted += round(count * _COUNTED[unit])
            read += length
        if days * 86400 * SECOND + counted > FURTHEST:
            raise self._too_far()
        return (days, counted) if read else None

    def _part(self, words: list[str]) -> tuple[float, str, int] | None:
        """The next count and unit, and the number of words they take."""
        match words:
            case ["half", "an", "hour", *_]:
                return 0.5, "hour", 3
            case [count, unit, *_] if unit in _UNITS and (count in _ARTICLES or _is_number(count)):
                return float(_ARTICLES.get(count, 0) or count), _UNITS[unit], 2
            case _:
                return None

    # a day, and a time of day

    def _day_and_clock(self) -> Understood:
        day, clock, tonight = self._said()
        if clock is None:
            if tonight:
                return self._resolve(self.today, _Clock("20:00", TONIGHT))
            raise self._no_clock(day)
        if clock.said == "midnight":
            return self._midnight(day, clock, tonight=tonight)
        return self._resolve(day, clock, tonight=tonight)

    def _said(self) -> tuple[date | None, _Clock | None, bool]:
        """The day, the time of day, and whether "tonight" was said."""
        for slashed in filter(None, map(_SLASHES.fullmatch, self.words)):
            raise self._slashes(slashed)
        day: date | None = None
        clock: _Clock | None = None
        part: str | None = None
        takes_day: tuple[Callable[[], date | None], ...] = (self._near_day, self._weekday, self._date, self._days_away)
        tonight = False
        while self.position < len(self.words):
            word = self.words[self.position]
            if word in {"at", "on", "the"} and self.position + 1 < len(self.words):
                self.position += 1
                continue
            if day is None and (found := next((one for take in takes_day if (one := take()) is not None), None)):
                day, tonight = found, word == "tonight"
            elif part is None and word in PARTS:
                part = self._taken(1, word)
            elif clock is None and (said := self._clock(tonight="tonight" in self.words)) is not None:
                clock = said
            else:
                raise self._not_understood(word)
        return day, clock if part is None else self._within(part, clock), tonight

    def _within(self, part: str, clock: _Clock | None) -> _Clock:
        """The time of day given with a part of the day, or the usual time of that part."""
        usual, first, last = PARTS[part]
        if clock is None:
            return _Clock(part, time(usual), twelve_hours=True)
        if not first <= clock.time.hour <= last:
            raise self.refusal(
                f"says {part}, and {shown_clock(clock.time)} is not in the {part}: leave one of them out"
            )
        return clock

    def _near_day(self) -> date | None:
        match self.words[self.position :]:
            case ["this", part, *_] if part in PARTS:
                return self._taken(1, self.today)
            case ["today" | "tonight", *_]:
                return self._taken(1, self.today)
            case ["tomorrow", *_]:
                return self._taken(1, self.today + timedelta(days=1))
            case ["day", "after", "tomorrow", *_]:
                return self._taken(3, self.today + timedelta(days=2))
            case _:
                return None

    def _weekday(self) -> date | None:
        words = self.words[self.position :]
        which = words[0] if words[0] in {"next", "this"} else None
        named = words[1:2] if which else words[:1]
        weekday = name_among(named[0], WEEKDAYS) if named else None
        if weekday is None:
            return None
        monday = self.today - timedelta(days=self.today.weekday())
        if which == "next":
            return self._taken(2, monday + timedelta(days=7 + weekday))
        if which == "this":
            return self._taken(2, monday + timedelta(days=weekday))
        away = (weekday - self.today.weekday()) % 7
        if away == 0:
            raise self.refusal(
                f"is said on a {WEEKDAYS[weekday].title()}: today ({shown_day(self.today)}) or in a week "
                f'({shown_day(self.today + timedelta(days=7))})? Write "{self._instead(named[0], "today")}" '
                f'or "{self._instead(named[0], f"next {named[0]}")}"'
            )
        return self._taken(1, self.today + timedelta(days=away))

    def _date(self) -> date | None:
        words = self.words[self.position :]
        if (match := _DATE.fullmatch(words[0])) is not None:
            return self._taken(1, self._calendar(int(match[1]), int(match[2]), int(match[3])))
        day, month = _day_and_month(words)
        if month is None:
            return None
        if day is None:
            raise self.refusal(f'names {MONTHS[month - 1].title()} and no day of it: write "24 {words[0][:3]} 18:00"')
        if (year := words[2:3]) and _YEAR.fullmatch(year[0]):
            return self._taken(3, self._calendar(int(year[0]), month, day))
        return self._taken(2, self._next_date(month, day))

    def _next_date(self, month: int, day: int) -> date:
        """The next such date, today included."""
        year = self.today.year
        coming = self._calendar(year, month, day)
        if coming < self.today:
            coming = self._calendar(year + 1, month, day)
        before = self._calendar(coming.year - 1, month, day) if (month, day) != (2, 29) else None
        if before is not None and coming > self.today and self.today - before <= JUST_PASSED:
            ago = (self.today - before).days
            raise self.refusal(
                f"is past: {shown_day(before)} was {ago} {'day' if ago == 1 else 'days'} ago. Name the year"
            )
        return coming

    def _calendar(self, year: int, month: int, day: int) -> date:
        try:
            return date(year, month, day)
        except ValueError:
            month_name = MONTHS[month - 1].title() if 1 <= month <= 12 else None
            what = f"{month_name} {year} has no day {day}" if month_name else f"there is no month {month}"
            raise self.refusal(f"is not a day of the calendar: {what}") from None

    def _slashes(self, match: re.Match[str]) -> InvalidTime:
        first, second = int(match[1]), int(match[2])
        if "." in match[0] and match[3] is None and first <= 23 and len(match[2]) == 2 and second <= 59:
            return self.refusal(
                f'has "{match[0]}": write "{self._instead(match[0], f"{first}:{match[2]}")}" for the time of day'
            )
        meant = [
            f"{day} {MONTHS[month - 1][:3]}" for day, month in {(first, second), (second, first)} if 1 <= month <= 12
        ]
        question = ": the day first, or the month?" if len(meant) > 1 else ":"
        written = " or ".join(f'"{one}"' for one in sorted(meant)) or '"2026-12-24"'
        return self.refusal(f'has "{match[0]}"{question} Write {written}, with a time')

    def _days_away(self) -> date | None:
        words = self.words[self.position :]
        if words[0] != "in" or (part := self._part(words[1:])) is None or part[1] not in _CALENDAR:
            return None
        days = part[0] * _CALENDAR[part[1]]
        if not days.is_integer():
            raise self.refusal(f"has a part of a {part[1]}: write it in hours")
        if days * 86400 * SECOND > FURTHEST:
            raise self._too_far()
        return self._taken(1 + part[2], self.today + timedelta(days=int(days)))

    def _clock(self, *, tonight: bool) -> _Clock | None:
        word = self.words[self.position]
        if word in {"noon", "midday"}:
            return self._taken(1, _Clock(word, time(12), twelve_hours=True))
        if word == "midnight":
            return self._taken(1, _Clock(word, time(0)))
        match = _CLOCK.fullmatch(word)
        if match is None:
            return None
        hour, minute, second, half = int(match[1]), int(match[2] or 0), int(match[3] or 0), match[4]
        if half is not None:
            if not 1 <= hour <= 12:
                raise self.refusal(f'has "{word}", and {half} goes with hours from 1 to 12')
            if hour == 12:
                raise self.refusal(
                    f'has "{word}": noon or midnight? Write "{self._instead(word, f"12:{minute:02}")}" '
                    f'or "{self._instead(word, f"00:{minute:02}")}"'
                )
            hour += 12 if half == "pm" else 0
        elif self._is_later(hour, tonight=tonight):
            hour += 12
        elif "morning" in self.words and 1 <= hour <= 11:
            pass
        elif match[2] is None:
            raise self._bare_hour(word, hour)
        try:
            return self._taken(1, _Clock(word, time(hour, minute, second), twelve_hours=half is not None))
        except ValueError:
            raise self.refusal(f'has "{word}", which is not a time of day: from 00:00 to 23:59') from None

    def _is_later(self, hour: int, *, tonight: bool) -> bool:
        """Whether the hour is meant to be pm, though pm was not written."""
        if "afternoon" in self.words:
            return 1 <= hour <= 6
        return (tonight or not LATER_PARTS.isdisjoint(self.words)) and 5 <= hour <= 11

    def _bare_hour(self, word: str, hour: int) -> InvalidTime:
        if 1 <= hour <= 11:
            return self.refusal(
                f'has "{word}": {hour} am or {hour} pm? Write "{self._instead(word, f"{hour}am")}" '
                f'or "{self._instead(word, f"{hour}pm")}"'
            )
        if hour == 12:
            return self.refusal(
                f'has "{word}": noon or midnight? Write "{self._instead(word, "12:00")}" '
                f'or "{self._instead(word, "00:00")}"'
            )
        if hour <= 23:
            return self.refusal(f'has "{word}" without minutes: write "{self._instead(word, f"{hour:02}:00")}"')
        return self._not_understood(word)

    # what was understood

    def _midnight(self, day: date | None, clock: _Clock, *, tonight: bool) -> Understood:
        """Midnight of today is the end of today. Midnight of another day is refused: its beginning or its end may be meant."""
        if day is None or tonight or day == self.today:
            return self._resolve(self.today + timedelta(days=1), clock)
        after = day + timedelta(days=1)
        raise self.refusal(
            f"is the beginning of {shown_day(day)} or its end? "
            f'Write "{day.isoformat()} 00:00" or "{after.isoformat()} 00:00"'
        )

    def _resolve(self, day: date | None, clock: _Clock, *, tonight: bool = False) -> Understood:
        if tonight and clock.time.hour < NIGHT_BEGINS:
            raise self.refusal(
                f'says tonight, and {clock.said} is not in the evening: write "today {clock.said}" or "tomorrow {clock.said}"'
            )
        on_day = self.today if day is None else day
        moment = self._moment(datetime.combine(on_day, clock.time))
        if moment <= self.now:
            raise self._past(on_day, clock)
        return Understood(moment, self.zone)

    def _past(self, day: date, clock: _Clock) -> InvalidTime:
        shown = f"({day.isoformat()} {shown_clock(clock.time)} {self.zone.key}, and it is {shown_clock(self.wall.time())} now)"
        if day != self.today:
            shown = f"({day.isoformat()} {shown_clock(clock.time)} {self.zone.key})"
            return self.refusal(f"{shown} is past: write a time that is still to come")
        remedies = [f"tomorrow {clock.said}"]
        later = datetime.combine(day, clock.time) + timedelta(hours=12)
        if not clock.twelve_hours and clock.time.hour in range(1, 12) and later > self.wall.replace(tzinfo=None):
            remedies.append(f"{clock.said}pm")
        words = "" if "today" in self.words or "tonight" in self.words else "today "
        written = " or ".join(f'"{one}"' for one in remedies)
        return self.refusal(f"{words}{shown} is past: write {written}")

    def _moment(self, wall: datetime) -> Microseconds:
        """The moment at which local time is `wall`; refuses a local time that is skipped or occurs twice."""
        try:
            first, second = (from_datetime(wall.replace(tzinfo=self.zone, fold=fold)) for fold in (0, 1))
        except (OverflowError, ValueError):
            raise self._too_far() from None
        if first - self.now > FURTHEST:
            raise self._too_far()
        if first == second:
            return first
        shown = f"{wall.date().isoformat()} {shown_clock(wall.time())}"
        one, other = (self._with_offset(moment) for moment in sorted((first, second)))
        if first < second:
            message = (
                f'{shown} comes twice in {self.zone.key}, where clocks go back that day: write "{one}" or "{other}"'
            )
        else:
            message = f'{shown} does not exist in {self.zone.key}, where clocks go forward that day: write "{one}" or "{other}"'
        raise self.refusal(f"is ambiguous: {message}")

    def _with_offset(self, moment: Microseconds) -> str:
        return local(moment, self.zone).isoformat(timespec="seconds")

    def _exact(self) -> Understood:
        try:
            moment = from_datetime(datetime.fromisoformat(re.sub(r"\s(?=[Z+-])", "", self.text.upper())))
        except (ValueError, OverflowError) as error:
            raise self.refusal(f"is not a time: {error}") from None
        if moment <= self.now:
            raise self.refusal(f"is past: that was {readable(self.now - moment)} ago, {in_words(moment, self.zone)}")
        if moment - self.now > FURTHEST:
            raise self._too_far()
        return Understood(moment, self.zone)

    # refusals

    def refusal(self, complaint: str) -> InvalidTime:
        return InvalidTime(f'"{self.text}" {complaint}')

    def _no_clock(self, day: date | None) -> InvalidTime:
        if day is None:
            return self.refusal(f"is not a time: write {self.examples}")
        return self.refusal(f'({shown_day(day)}) has no time of day: write "{self.text} 9am"')

    def _not_understood(self, word: str) -> InvalidTime:
        if word in {"utc", "gmt", "z"} or "/" in word:
            return self.refusal(f'contains the zone "{word}": give the zone separately (--tz, tz=)')
        if not {"month", "months", "year", "years"}.isdisjoint(self.words):
            return self.refusal("counts months or years, which vary in length: write the date")
        if word == "in":
            return self.refusal('is not a readable span of time: write "in 20 minutes", "in 1h30m" or "in 3 days"')
        known = (*WEEKDAYS, *MONTHS, *_UNITS, *PARTS, *self.near, "noon", "midnight")
        close = did_you_mean(word, known)
        close = close if "Did you mean" in close else ""
        return self.refusal(f'cannot be read as a time because of "{word}".{close} Write {self.examples}')

    def _too_far(self) -> InvalidTime:
        return self.refusal("is more than 50 years away")

    def _instead(self, word: str, other: str) -> str:
        return " ".join(other if one == word else one for one in self.words)

    def _taken(self, words: int, value: T) -> T:
        self.position += words
        return value


def _apart(word: str) -> list[str]:
    """1h30m becomes four words: 1 h 30 m. Other words stay as they are."""
    parts = _NUMBER_AND_UNIT.findall(word)
    if "".join(number + unit for number, unit in parts) != word or any(unit not in _UNITS for _, unit in parts):
        return [word]
    return [part for pair in parts for part in pair]


def _day_and_month(words: list[str]) -> tuple[int | None, int | None]:
    """24 dec, 24th december, dec 24: the day and the named month."""
    month = name_among(words[0], MONTHS)
    if month is not None:
        day = _DAY_OF_MONTH.fullmatch(words[1]) if words[1:] else None
        return (None if day is None else int(day[1])), month + 1
    day = _DAY_OF_MONTH.fullmatch(words[0])
    month = name_among(words[1], MONTHS) if day is not None and words[1:] else None
    return (None, None) if day is None or month is None else (int(day[1]), month + 1)


def _is_number(word: str) -> bool:
    return re.fullmatch(r"\d{1,9}(?:\.\d{1,9})?", word) is not None
