"""What can be given of a schedule: the parameters that `add` and `edit` share."""

from __future__ import annotations

from typing import Annotated, Any

from wakeful.resources.parameters import Param
from wakeful.triggers.schedule import CatchUp, ScheduleOverlap

MOST_MADE_UP_FOR = 100_000
NONE = "none"  # takes away what was given before


def option(name: str, told: str, metavar: str, about: str | None = None, **more: Any) -> Param:
    """An option of a schedule; without `none` it has another meaning for that word."""
    elsewhere = f"--{name.replace('_', '-')} is for add and edit: {{word}} has no use for it"
    return Param(
        told, about=about, metavar=metavar, nullable=True, elsewhere=elsewhere, **{"none": NONE, "what": "way"} | more
    )


CRONTAB = "the five fields of crontab, or @daily and its like"
Cron = Annotated[str, option("cron", f'{CRONTAB}: "0 8 * * 1-5"', "FIELDS", CRONTAB)]
Every = Annotated[str, option("every", "an interval, like 30m", "TIME")]
At = Annotated[str, option("at", "once, like 2026-12-24T18:00", "TIME")]
Zone = Annotated[
    str,
    option(
        "tz",
        "whose clock, like Europe/London; else WAKEFUL_TIME_ZONE, else UTC",
        "ZONE",
        "whose clock, like Europe/London",
    ),
]
Active = Annotated[
    str,
    option(
        "active",
        'with --every: only in these hours, like "08:00-20:00"',
        "HOURS",
        "with every: only in these hours, like 08:00-20:00",
    ),
]
Days = Annotated[
    str,
    option(
        "days",
        'with --every: only on these days, like "mon-fri"',
        "DAYS",
        "with every: only on these days, like mon-fri",
    ),
]
Overlap = Annotated[ScheduleOverlap, option("overlap", "while the run before is not over", "WAY")]
Catching = Annotated[CatchUp, option("catch_up", "of what was due while nobody was there", "WHICH", none=None)]
Grace = Annotated[
    str,
    option(
        "grace",
        "how late the latest of them may still be done",
        "TIME",
        "how late the latest of them may still be done, like 1h",
    ),
]
MaxAge = Annotated[
    str, option("max_age", "with --catch-up all: no older than this", "TIME", "with catch_up all: no older than this")
]
MaxCount = Annotated[
    int,
    option(
        "max_count",
        "with --catch-up all: no more than so many",
        "N",
        "with catch_up all: no more than so many",
        least=1,
        most=MOST_MADE_UP_FOR,
    ),
]
Jitter = Annotated[str, option("jitter", "fire up to so much later, always by the same", "TIME")]
Expires = Annotated[str, option("expires", "what has not begun so long after its occurrence never does", "TIME")]
StartsWithin = Annotated[str, option("starts_within", "later than that, somebody hears that it has not begun", "TIME")]
EndsWithin = Annotated[str, option("ends_within", "longer than that, somebody hears that it is not over", "TIME")]
Data = Annotated[
    Any, option("data", "what its events carry: JSON, @file, or - for standard input", "JSON", "what its events carry")
]
