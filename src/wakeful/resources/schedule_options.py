"""The options of a schedule: parameters that `add` and `edit` share."""

from __future__ import annotations

from typing import Annotated, Any

from wakeful.resources.parameters import Param
from wakeful.triggers.schedule import CatchUp, ScheduleOverlap

MOST_MADE_UP_FOR = 100_000
NONE = "none"  # removes an option


def option(name: str, told: str, metavar: str, about: str | None = None, **more: Any) -> Param:
    """An option of a schedule. `none=None`: the word "none" is an ordinary value of it."""
    elsewhere = f"--{name.replace('_', '-')} is for add and edit, not for {{word}}"
    return Param(
        told, about=about, metavar=metavar, nullable=True, elsewhere=elsewhere, **{"none": NONE, "what": "way"} | more
    )


CRONTAB = "five crontab fields, or a shorthand such as @daily"
Cron = Annotated[str, option("cron", f'{CRONTAB}: "0 8 * * 1-5"', "FIELDS", CRONTAB)]
Every = Annotated[str, option("every", "fire at this interval, such as 30m", "TIME")]
At = Annotated[str, option("at", "fire once at this time, such as 2026-12-24T18:00", "TIME")]
Zone = Annotated[
    str,
    option(
        "tz",
        "time zone, such as Europe/London (default: WAKEFUL_TIME_ZONE, else UTC)",
        "ZONE",
        "time zone, such as Europe/London",
    ),
]
Active = Annotated[
    str,
    option(
        "active",
        'with --every: only within these hours, such as "08:00-20:00"',
        "HOURS",
        "with every: only within these hours, such as 08:00-20:00",
    ),
]
Days = Annotated[
    str,
    option(
        "days",
        'with --every: only on these days, such as "mon-fri"',
        "DAYS",
        "with every: only on these days, such as mon-fri",
    ),
]
Overlap = Annotated[ScheduleOverlap, option("overlap", "what to do if the previous run is not over", "WAY")]
Catching = Annotated[
    CatchUp,
    option("catch_up", "which occurrences to catch up that came due while no worker was running", "WHICH", none=None),
]
Grace = Annotated[
    str,
    option(
        "grace",
        "how late the last missed occurrence may still fire",
        "TIME",
        "how late the last missed occurrence may still fire, such as 1h",
    ),
]
MaxAge = Annotated[
    str,
    option(
        "max_age",
        "with --catch-up all: skip occurrences older than this",
        "TIME",
        "with catch_up all: skip occurrences older than this",
    ),
]
MaxCount = Annotated[
    int,
    option(
        "max_count",
        "with --catch-up all: catch up at most N occurrences",
        "N",
        "with catch_up all: catch up at most this many occurrences",
        least=1,
        most=MOST_MADE_UP_FOR,
    ),
]
Jitter = Annotated[str, option("jitter", "delay each occurrence by a fixed offset of at most this", "TIME")]
Expires = Annotated[str, option("expires", "drop a run that has not started this long after its occurrence", "TIME")]
StartsWithin = Annotated[
    str, option("starts_within", "raise an alarm if a run has not started within this time", "TIME")
]
EndsWithin = Annotated[str, option("ends_within", "raise an alarm if a run has not ended within this time", "TIME")]
Data = Annotated[
    Any, option("data", "data of its events: JSON, @file, or - for standard input", "JSON", "data of its events")
]
