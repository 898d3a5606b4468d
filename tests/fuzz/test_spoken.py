"""Times as people say them: a moment to come, or InvalidTime."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from support.fuzzing import bounded, fuzzed, replayed
from wakeful.clock import SECOND, from_datetime
from wakeful.errors import InvalidTime
from wakeful.triggers.calendar_words import MONTHS, WEEKDAYS
from wakeful.triggers.spoken import FURTHEST, read_time

TARGET = "spoken"
# A usual day, the end of a century, and the days on which clocks change.
PLACES = [
    (datetime(2026, 11, 15, 16, tzinfo=UTC), ZoneInfo("Europe/London")),
    (datetime(2026, 3, 29, 0, 59, 59, tzinfo=UTC), ZoneInfo("Europe/London")),
    (datetime(2099, 12, 31, 23, 59, tzinfo=UTC), ZoneInfo("UTC")),
    (datetime(2026, 4, 4, 14, 45, tzinfo=UTC), ZoneInfo("Australia/Lord_Howe")),
    (datetime(2028, 2, 29, 12, tzinfo=UTC), ZoneInfo("Pacific/Apia")),
]
WORDS = "in at on next this the from now a an half and noon midnight tonight today tomorrow morning evening pm a.m. day weeks hour min s 24 12 31 0 2028-02-29 : / . th 1h30m 99999999999"
TOKENS = [f" {word} ".encode() for word in (*WORDS.split(), *MONTHS, *WEEKDAYS)]


def examine(content: bytes) -> None:
    text = content.decode("utf-8", "surrogateescape")
    with bounded(content, TARGET):
        for moment, zone in PLACES:
            now = from_datetime(moment)
            try:
                reading = read_time(text, now=now, zone=zone)
            except InvalidTime as refusal:
                assert len(str(refusal).encode()) > 10  # noqa: PT017 many are no refusal at all
            else:
                assert now < reading.moment <= now + FURTHEST + 2 * 86400 * SECOND


@replayed(TARGET)
def test_the_corpus(content: bytes):
    examine(content)


@fuzzed(TARGET, tokens=TOKENS)
def test_mutations(content: bytes):
    examine(content)
