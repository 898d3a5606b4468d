"""Times that are over, as `--from`, `--since` and `--before` take them."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from wakeful.clock import from_datetime, to_text
from wakeful.triggers.past import read_past
from wakeful.triggers.zones import local

LONDON = ZoneInfo("Europe/London")
# A Wednesday in summer, at noon on the wall.
NOW = from_datetime(datetime(2026, 7, 15, 12, 0, tzinfo=LONDON))
UTC_NOON = from_datetime(datetime(2026, 1, 1, 12, 0))


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("now", "2026-01-01T12:00:00Z"),
        ("2h", "2026-01-01T10:00:00Z"),
        ("2h ago", "2026-01-01T10:00:00Z"),
        ("1d12h ago", "2025-12-31T00:00:00Z"),
        ("2026-01-01", "2026-01-01T00:00:00Z"),
        ("2026-01-01T01:00:00", "2026-01-01T01:00:00Z"),
        ("2026-01-01T01:00:00Z", "2026-01-01T01:00:00Z"),
        ("2026-01-01T01:00:00+02:00", "2025-12-31T23:00:00Z"),
        ("99999w", "1970-01-01T00:00:00Z"),
        ("12:00", "2026-01-01T12:00:00Z"),
    ],
)
def test_moments(text: str, means: str):
    assert to_text(read_past(text, now=UTC_NOON)) == means


@pytest.mark.parametrize(
    ("text", "wall"),
    [
        ("today", "2026-07-15 00:00"),
        ("yesterday", "2026-07-14 00:00"),
        ("Yesterday 9am", "2026-07-14 09:00"),
        ("yesterday morning", "2026-07-14 09:00"),
        ("last night", "2026-07-14 20:00"),
        ("this morning", "2026-07-15 09:00"),
        ("the day before yesterday", "2026-07-13 00:00"),
        ("monday", "2026-07-13 00:00"),
        ("last friday", "2026-07-10 00:00"),
        ("last wednesday at 10:00", "2026-07-08 10:00"),
        ("14 jul", "2026-07-14 00:00"),
        ("24 dec 18:00", "2025-12-24 18:00"),
        ("2026-07-01", "2026-07-01 00:00"),
        ("2026-07-01 08:30", "2026-07-01 08:30"),
        ("10:00", "2026-07-15 10:00"),
        ("3 days ago", "2026-07-12 12:00"),
        ("two hours ago", "2026-07-15 10:00"),
        ("1 day and 2 hours ago", "2026-07-14 10:00"),
        ("2026-07-01T08:00:00Z", "2026-07-01 09:00"),
    ],
)
def test_by_the_clock_on_the_wall(text: str, wall: str):
    assert local(read_past(text, now=NOW, zone=LONDON), LONDON).strftime("%Y-%m-%d %H:%M") == wall


def test_the_zone_is_that_of_the_settings(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("WAKEFUL_TIME_ZONE", "Europe/London")
    assert to_text(read_past("yesterday", now=NOW)) == "2026-07-13T23:00:00Z"
    assert to_text(read_past("2026-07-14", now=NOW)) == "2026-07-13T23:00:00Z"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is not a time: write"),
        ("ago", "is not a time: write"),
        ("soon", 'because of "soon"'),
        ("yesteday", 'Did you mean "yesterday"'),
        ("2026-13-01", "there is no month 13"),
        ("2", "2 am or 2 pm"),
        ("tomorrow 9am", "is still to come"),
        ("23:00", "is still to come"),
        ("wednesday", 'Write "today" or "last wednesday"'),
        ("90000000 weeks ago", "more than 50 years away"),
        ("x" * 300, "is not a time"),
    ],
)
def test_what_is_refused(text: str, says: str):
    with pytest.raises(ValueError, match=says):
        read_past(text, now=NOW, zone=LONDON)
