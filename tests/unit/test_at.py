"""at(): once."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest

from wakeful import ConfigError, at
from wakeful.clock import from_datetime, to_text
from wakeful.triggers.schedule import occurrences

LONDON = ZoneInfo("Europe/London")


@pytest.mark.parametrize(
    ("time", "zone", "moment"),
    [
        ("2026-12-24T18:00", "UTC", "2026-12-24T18:00:00Z"),
        ("2026-12-24 18:00", "Asia/Tokyo", "2026-12-24T09:00:00Z"),
        (" 2026-07-01T18:00:30.5 ", "Europe/London", "2026-07-01T17:00:30.500000Z"),
        ("2026-12-24", "Europe/London", "2026-12-24T00:00:00Z"),
        ("2026-12-24T18:00Z", "Asia/Tokyo", "2026-12-24T18:00:00Z"),
        ("2026-12-24T18:00+02:00", "Asia/Tokyo", "2026-12-24T16:00:00Z"),
        (datetime(2026, 7, 1, 18), "Europe/London", "2026-07-01T17:00:00Z"),
        (datetime(2026, 7, 1, 18, tzinfo=UTC), "Europe/London", "2026-07-01T18:00:00Z"),
        (datetime(2026, 7, 1, 18, tzinfo=timezone(timedelta(hours=2))), None, "2026-07-01T16:00:00Z"),
        (datetime(2026, 7, 1, 18, tzinfo=LONDON), None, "2026-07-01T17:00:00Z"),
        # Never shown: when the clock has jumped.
        ("2026-03-29T01:30", "Europe/London", "2026-03-29T01:00:00Z"),
        ("2026-10-04T02:10", "Australia/Lord_Howe", "2026-10-03T15:30:00Z"),
        (datetime(2026, 3, 29, 1, 30, tzinfo=LONDON), None, "2026-03-29T01:00:00Z"),
        # Shown twice: the first, or the second if it is asked for.
        ("2026-10-25T01:30", "Europe/London", "2026-10-25T00:30:00Z"),
        ("2026-10-25T01:30+00:00", "Europe/London", "2026-10-25T01:30:00Z"),
        (datetime(2026, 10, 25, 1, 30), "Europe/London", "2026-10-25T00:30:00Z"),
        (datetime(2026, 10, 25, 1, 30, fold=1), "Europe/London", "2026-10-25T01:30:00Z"),
        (datetime(2026, 10, 25, 1, 30, fold=1, tzinfo=LONDON), None, "2026-10-25T01:30:00Z"),
    ],
)
def test_times(time, zone, moment):
    rule = at(time, tz=zone).rule
    (occurrence,) = occurrences(rule, 0, 2**60)
    assert to_text(occurrence) == moment


def test_it_comes_once():
    moment = from_datetime(datetime(2026, 12, 24, 18))
    rule = at("2026-12-24T18:00").rule
    assert [rule.next(moment - 1), rule.next(moment)] == [moment, None]
    assert [rule.previous(moment + 1), rule.previous(moment)] == [moment, None]
    assert rule.count(moment, moment + 5, 10) == (1, moment)


def test_it_says_what_it_is():
    assert at("2026-12-24 18:00", tz="Europe/London").describe() == 'at("2026-12-24T18:00", tz="Europe/London")'
    assert at("2026-12-24T18:00:30").describe() == 'at("2026-12-24T18:00:30", tz="UTC")'
    assert at("2026-12-24T18:00Z", tz="Asia/Tokyo").describe() == 'at("2026-12-25T03:00", tz="Asia/Tokyo")'
    assert at(datetime(2026, 7, 1, 18, tzinfo=LONDON)).describe() == 'at("2026-07-01T18:00", tz="Europe/London")'
    assert at("2026-03-29T01:30", tz="Europe/London").describe() == 'at("2026-03-29T02:00", tz="Europe/London")'
    second = at(datetime(2026, 10, 25, 1, 30, fold=1, tzinfo=LONDON))
    assert second.describe() == 'at("2026-10-25T01:30+00:00", tz="Europe/London")'


@pytest.mark.parametrize(
    ("time", "words"),
    [
        ("", r'not a time: write at\("2026-12-24T18:00"\), or hand in a datetime'),
        ("tomorrow", "not a time: write at"),
        ("2026-02-30T10:00", "not a time: write at"),
        ("18:30", r'a time without a day: .*; for every day at that time, use cron\("30 18 \* \* \*"\)'),
        (None, "not a time: write at"),
        (1_800_000_000, "not a time: write at"),
        (date(2026, 12, 24), "not a time: write at"),
        ("0001-01-01T00:00", "the year is 1, but must be from 1970 to 9998"),
        ("1969-12-31T23:00", "the year is 1969, but must be from 1970 to 9998"),
        ("9999-12-31T23:00", "the year is 9999"),
        (datetime(9999, 12, 31, 23), "the year is 9999"),
    ],
)
def test_what_is_no_time_is_refused(time, words):
    with pytest.raises(ConfigError, match=rf"^at\(.*: ({words})"):
        at(time, tz="America/New_York")


def test_a_zone_that_does_not_exist_is_refused():
    with pytest.raises(ConfigError, match=r"at\('2026-12-24T18:00'\): there is no zone 'Mars/Olympus'"):
        at("2026-12-24T18:00", tz="Mars/Olympus")
