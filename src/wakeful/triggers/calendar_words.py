"""Names of days and months, and moments written for people: "on Mon 16 Nov 2026 09:00 Europe/London (in 12 h 5 m)"."""

from __future__ import annotations

from datetime import date, time
from zoneinfo import ZoneInfo

from wakeful.clock import Microseconds, readable
from wakeful.triggers.zones import local

WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
MONTHS = (
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
)


def in_words(moment: Microseconds, zone: ZoneInfo, now: Microseconds | None = None) -> str:
    """A moment as local time of the zone, for people; with `now`, also how far away it is."""
    shown = f"on {shown_day(local(moment, zone))} {shown_clock(local(moment, zone).time())} {zone.key}"
    if now is None:
        return shown
    away = f"in {readable(moment - now)}" if moment > now else f"{readable(now - moment)} ago"
    return f"{shown} ({away})"


def name_among(word: str, names: tuple[str, ...]) -> int | None:
    """The position of the name that a word stands for, in full or abbreviated to three or more letters; None if none."""
    start = word.removesuffix(".")
    return None if len(start) < 3 else next((place for place, name in enumerate(names) if name.startswith(start)), None)


def shown_day(day: date) -> str:
    return f"{WEEKDAYS[day.weekday()][:3].title()} {day.day} {MONTHS[day.month - 1][:3].title()} {day.year}"


def shown_clock(clock: time) -> str:
    return clock.strftime("%H:%M:%S" if clock.second else "%H:%M")
