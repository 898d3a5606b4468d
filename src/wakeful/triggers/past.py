"""Past times, for options that look back: `--from yesterday`, `--since "last friday 9am"`.

    now · 2h · 1d12h ago · 3 days ago · 2026-01-31 · 2026-01-31T12:00:00Z · today · yesterday · last friday · 24 dec 18:00

A day by itself means its beginning. A time without a zone is local time in one zone.
"""

from __future__ import annotations

from datetime import date, datetime, time, timedelta
from typing import ClassVar
from zoneinfo import ZoneInfo

from wakeful.clock import Microseconds, duration, from_datetime
from wakeful.errors import InvalidTime
from wakeful.triggers.calendar_words import WEEKDAYS, name_among, shown_day
from wakeful.triggers.spoken import LONGEST_TEXT, TimeReader
from wakeful.triggers.zones import moment_of, zone_named

EXAMPLES = '"yesterday", "last friday 9am", "2h", "3 days ago", 2026-01-31 or 2026-01-31T12:00:00Z'


def read_past(text: str, *, now: Microseconds, zone: ZoneInfo | None = None) -> Microseconds:
    """The moment that a text about the past names. `zone` applies to times that name none (default: WAKEFUL_TIME_ZONE, else
    UTC). Raises ValueError, which says what was understood.
    """
    words = " ".join(text.split())
    where = zone_named(zone, where="a time")
    if words == "now":
        return now
    try:
        return max(0, now - duration(words.removesuffix("ago").strip()))
    except ValueError:
        pass
    try:
        wall = datetime.fromisoformat(words)
    except ValueError:
        pass
    else:
        # A local time that occurs twice, or is skipped, is no reason to refuse a look back.
        return moment_of(wall, where) if wall.tzinfo is None else from_datetime(wall)
    if not words or len(words) > LONGEST_TEXT:
        message = f"{text[:40]!r} is not a time: write {EXAMPLES}"
        raise ValueError(message)
    try:
        return _PastReader(words, now, where).moment()
    except InvalidTime as error:
        raise ValueError(str(error)) from None


class _PastReader(TimeReader):
    """Reads one text, word by word, as a time in the past."""

    examples = EXAMPLES
    near: ClassVar[tuple[str, ...]] = ("today", "yesterday", "last")

    def moment(self) -> Microseconds:
        if self.words[-1] == "ago":
            return self._ago()
        day, clock, _ = self._said()
        at = time(0) if clock is None else clock.time
        if day is None and clock is None:
            raise self.refusal(f"is not a time: write {self.examples}")
        moment = moment_of(datetime.combine(day or self.today, at), self.zone)
        if moment > self.now:
            raise self.refusal(f"is still to come: write {self.examples}")
        return moment

    def _ago(self) -> Microseconds:
        """3 days ago, 1 hour and 30 minutes ago."""
        days, counted = self._counted(self.words[:-1]) or (0, 0)
        if not days and not counted:
            raise self.refusal(f"is not a time: write {self.examples}")
        wall = self.wall.replace(tzinfo=None, fold=0) - timedelta(days=days)
        start = moment_of(wall, self.zone) if days else self.now
        return max(0, start - counted)

    def _near_day(self) -> date | None:
        match self.words[self.position :]:
            case ["yesterday", *_]:
                return self._taken(1, self.today - timedelta(days=1))
            case ["day", "before", "yesterday", *_]:
                return self._taken(3, self.today - timedelta(days=2))
            case ["last", "night", *_]:
                return self._taken(1, self.today - timedelta(days=1))
            case ["today" | "tonight", *_]:
                return self._taken(1, self.today)
            case _:
                return super()._near_day()

    def _weekday(self) -> date | None:
        words = self.words[self.position :]
        last = words[0] == "last"
        name = words[1:2] if last else words[:1]
        weekday = name_among(name[0], WEEKDAYS) if name else None
        if weekday is None:
            return None
        back = (self.today.weekday() - weekday) % 7
        if back == 0 and not last:
            raise self.refusal(
                f"is said on a {WEEKDAYS[weekday].title()}: today ({shown_day(self.today)}) or a week ago "
                f'({shown_day(self.today - timedelta(days=7))})? Write "today" or "last {name[0]}"'
            )
        return self._taken(1 + last, self.today - timedelta(days=back or 7))

    def _next_date(self, month: int, day: int) -> date:
        """The last such date, today included."""
        year = self.today.year
        found = self._calendar(year, month, day)
        return found if found <= self.today else self._calendar(year - 1, month, day)

    def _days_away(self) -> date | None:
        return None
