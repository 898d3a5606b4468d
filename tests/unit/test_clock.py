"""Durations and times."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakeful.clock import (
    SECOND,
    SystemClock,
    VirtualClock,
    duration,
    from_datetime,
    readable,
    seconds,
    to_datetime,
    to_second,
    to_text,
)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("500us", 500),
        ("5ms", 5_000),
        ("30s", 30 * SECOND),
        ("10m", 600 * SECOND),
        ("1h30m", 5400 * SECOND),
        ("1h 30m", 5400 * SECOND),
        (" 2d ", 172_800 * SECOND),
        ("1w", 604_800 * SECOND),
        ("1.5s", 1_500_000),
        ("0s", 0),
        ("5 m", 300 * SECOND),
        (timedelta(seconds=90), 90 * SECOND),
        (timedelta(microseconds=1), 1),
        (2, 2 * SECOND),
        (0.5, 500_000),
    ],
)
def test_durations(given, expected):
    assert duration(given) == expected


@pytest.mark.parametrize(
    "given", ["", " ", "5", "s", "5x", "-5s", "5s!", "five seconds", "5s 5", "1e3s", "0x5s", "٣s x"]
)
def test_what_is_no_duration_is_refused_with_an_example(given):
    with pytest.raises(ValueError, match=r'is not a duration: write it as .*"30s"'):
        duration(given)


@pytest.mark.parametrize("given", [None, True, [], b"5s", object()])
def test_what_is_no_kind_of_duration_is_refused(given):
    with pytest.raises(TypeError, match="is not a duration"):
        duration(given)


@given(st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=36500)))
def test_a_timedelta_is_exact(span):
    assert abs(duration(span) - span // timedelta(microseconds=1)) <= 1


@given(st.datetimes(min_value=datetime(1, 1, 1), max_value=datetime(9999, 12, 31), timezones=st.just(UTC)))
def test_a_moment_comes_back_to_the_microsecond(moment):
    assert to_datetime(from_datetime(moment)) == moment


def test_moments():
    assert from_datetime(datetime(1970, 1, 1)) == 0
    assert from_datetime(datetime(1970, 1, 1, 2, tzinfo=timezone(timedelta(hours=2)))) == 0
    assert to_text(1_500_000) == "1970-01-01T00:00:01.500000Z"
    assert to_text(None) is None
    assert seconds(1_500_000) == 1.5


@pytest.mark.parametrize(
    ("span", "text"),
    [
        (None, "–"),
        (850, "850 µs"),
        (12_300, "12.3 ms"),
        (4_200_000, "4.2 s"),
        (200 * SECOND, "3 m 20 s"),
        (7_500 * SECOND, "2 h 5 m"),
        (273_600 * SECOND, "3 d 4 h"),
    ],
)
def test_spans_for_people(span, text):
    assert readable(span) == text


def test_a_virtual_clock_stands_still_until_it_is_moved():
    clock = VirtualClock(datetime(2026, 1, 1, tzinfo=UTC))
    start = clock.now()
    assert clock.now() == clock.for_database() == start
    clock.move("1h")
    assert clock.now() == clock.for_database() == start + 3600 * SECOND


def test_the_systems_clock_leaves_the_database_its_own():
    clock = SystemClock()
    assert abs(clock.now() - from_datetime(datetime.now(UTC))) < 10 * SECOND
    assert clock.for_database() is None


def test_a_virtual_clock_begins_where_the_text_says():
    assert VirtualClock("2026-03-01T08:00Z").now() == VirtualClock(datetime(2026, 3, 1, 8, tzinfo=UTC)).now()
    assert VirtualClock("2026-03-01T08:00+01:00").now() == VirtualClock("2026-03-01T07:00").now()


@pytest.mark.parametrize("start", ["text", "", "25:00"])
def test_a_virtual_clock_refuses_text_that_is_no_time(start: str):
    with pytest.raises(ValueError, match=r"VirtualClock.*write a time like"):
        VirtualClock(start)


@pytest.mark.parametrize("start", [None, True, 1.5, object()])
def test_a_virtual_clock_refuses_what_is_no_time(start: Any):
    with pytest.raises(TypeError, match=r"VirtualClock.*give a datetime"):
        VirtualClock(start)


def test_a_time_in_a_sentence_has_no_fraction_of_a_second():
    assert to_second(1_767_576_600 * SECOND + 560_842) == "2026-01-05T01:30:00Z"
