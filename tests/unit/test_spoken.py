"""Times as people say them: what is understood, what is refused, and what the refusal says."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakeful.clock import SECOND, from_datetime
from wakeful.errors import InvalidTime
from wakeful.triggers.calendar_words import MONTHS, WEEKDAYS
from wakeful.triggers.spoken import FURTHEST, read_time
from wakeful.triggers.zones import local

LONDON = ZoneInfo("Europe/London")
# A Sunday, in the afternoon.
NOW = from_datetime(datetime(2026, 11, 15, 16, 0, tzinfo=LONDON))


def read(text: str, now: int = NOW, zone: ZoneInfo = LONDON) -> str:
    return local(read_time(text, now=now, zone=zone).moment, zone).strftime("%Y-%m-%d %H:%M:%S").removesuffix(":00")


def refused(text: str, now: int = NOW, zone: ZoneInfo = LONDON) -> str:
    with pytest.raises(InvalidTime) as caught:
        read_time(text, now=now, zone=zone)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "wall"),
    [
        ("in 20 minutes", "2026-11-15 16:20"),
        ("in 20 min", "2026-11-15 16:20"),
        ("In Twenty Minutes", "2026-11-15 16:20"),
        ("20 minutes from now", "2026-11-15 16:20"),
        ("in 2 hours", "2026-11-15 18:00"),
        ("in 1h30m", "2026-11-15 17:30"),
        ("in 1 hour and 30 minutes", "2026-11-15 17:30"),
        ("in 1.5 hours", "2026-11-15 17:30"),
        ("in half an hour", "2026-11-15 16:30"),
        ("in an hour", "2026-11-15 17:00"),
        ("in 45s", "2026-11-15 16:00:45"),
        ("in 3 days", "2026-11-18 16:00"),
        ("in 1d12h", "2026-11-17 04:00"),
        ("in a week", "2026-11-22 16:00"),
        ("in 3 days at 9am", "2026-11-18 09:00"),
        ("9am in 2 weeks", "2026-11-29 09:00"),
        ("at 5pm", "2026-11-15 17:00"),
        ("5 p.m.", "2026-11-15 17:00"),
        ("at 17:30", "2026-11-15 17:30"),
        ("at 17:30:05", "2026-11-15 17:30:05"),
        ("today 17:30", "2026-11-15 17:30"),
        ("tonight", "2026-11-15 20:00"),
        ("tomorrow morning", "2026-11-16 09:00"),
        ("tomorrow morning at 7", "2026-11-16 07:00"),
        ("friday afternoon", "2026-11-20 15:00"),
        ("tomorrow afternoon at 3", "2026-11-16 15:00"),
        ("this evening", "2026-11-15 19:00"),
        ("evening", "2026-11-15 19:00"),
        ("tomorrow evening at 7:30", "2026-11-16 19:30"),
        ("24 dec evening", "2026-12-24 19:00"),
        ("tomorrow night", "2026-11-16 20:00"),
        ("in 3 days morning", "2026-11-18 09:00"),
        ("tonight at 9", "2026-11-15 21:00"),
        ("tonight 9:30", "2026-11-15 21:30"),
        ("tonight 23:10", "2026-11-15 23:10"),
        ("midnight", "2026-11-16 00:00"),
        ("at midnight", "2026-11-16 00:00"),
        ("tonight at midnight", "2026-11-16 00:00"),
        ("tomorrow noon", "2026-11-16 12:00"),
        ("noon tomorrow", "2026-11-16 12:00"),
        ("tomorrow 9am", "2026-11-16 09:00"),
        ("tomorrow at 9:30", "2026-11-16 09:30"),
        ("tomorrow, 9 am", "2026-11-16 09:00"),
        ("the day after tomorrow at 10:00", "2026-11-17 10:00"),
        ("friday 10:00", "2026-11-20 10:00"),
        ("10:00 on fri", "2026-11-20 10:00"),
        ("next friday at 10am", "2026-11-20 10:00"),
        ("next sunday at 10am", "2026-11-22 10:00"),
        ("this sunday 18:00", "2026-11-15 18:00"),
        ("2026-12-01 09:00", "2026-12-01 09:00"),
        ("2026-12-01T09:00", "2026-12-01 09:00"),
        ("2026-12-01T09:00:00Z", "2026-12-01 09:00"),
        ("2026-12-01T09:00:00+02:00", "2026-12-01 07:00"),
        ("2026-12-01 09:00 -05:00", "2026-12-01 14:00"),
        ("24 dec 18:00", "2026-12-24 18:00"),
        ("24th December at 6pm", "2026-12-24 18:00"),
        ("dec 24 at 6pm", "2026-12-24 18:00"),
        ("6pm on Dec 24, 2027", "2027-12-24 18:00"),
        ("3 feb 9:00", "2027-02-03 09:00"),
        ("15 nov 17:00", "2026-11-15 17:00"),
    ],
)
def test_what_is_understood(text: str, wall: str) -> None:
    assert read(text) == wall


def test_next_is_the_week_after_this_one() -> None:
    tuesday = from_datetime(datetime(2026, 11, 17, 12, 0, tzinfo=LONDON))
    assert read("friday 10:00", tuesday) == "2026-11-20 10:00"
    assert read("next friday 10:00", tuesday) == "2026-11-27 10:00"
    assert read("next monday 10:00", tuesday) == "2026-11-23 10:00"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("at 3", ["3 am or 3 pm?", '"at 3am" or "at 3pm"']),
        ("tomorrow at 9", ['"tomorrow at 9am" or "tomorrow at 9pm"']),
        ("at 12", ["noon or midnight?"]),
        ("tomorrow 12am", ["noon or midnight?", '"tomorrow 12:00" or "tomorrow 00:00"']),
        ("at 15", ['write "at 15:00"']),
        ("at 3pm", ['"at 3pm" today (2026-11-15 15:00 Europe/London', "it is 16:00 now", 'past: write "tomorrow 3pm"']),
        ("today noon", ['"today noon" (2026-11-15 12:00 Europe/London', 'write "tomorrow noon"']),
        ("at 7:30", ['write "tomorrow 7:30" or "7:30pm"']),
        ("03/04 9:00", ["the day first, or the month?", '"3 apr" or "4 mar"']),
        ("24/12 18:00", ['Write "24 dec"']),
        ("tomorrow 9.30", ['write "tomorrow 9:30"']),
        ("monday", ['"monday" (Mon 16 Nov 2026) has no time of day: write "monday 9am"']),
        ("tomorrow", ['(Mon 16 Nov 2026) has no time of day: write "tomorrow 9am"']),
        ("24 dec", ["(Thu 24 Dec 2026) has no time of day"]),
        ("dec 18:00", ["names December and no day of it"]),
        ("sunday 18:00", ["is said on a Sunday", "today (Sun 15 Nov 2026) or in a week (Sun 22 Nov 2026)"]),
        ("sunday 18:00", ['"today 18:00" or "next sunday 18:00"']),
        ("this friday 18:00", ["(2026-11-13 18:00 Europe/London) is past"]),
        ("14 nov 9:00", ["is past: Sat 14 Nov 2026 was 1 day ago", "Name the year"]),
        ("2026-11-14 9:00", ["(2026-11-14 09:00 Europe/London) is past"]),
        ("2026-11-15T15:00:00Z", ["is past: that was 1 h 0 m ago, on Sun 15 Nov 2026 15:00 Europe/London"]),
        ("29 feb 9:00", ["February 2026 has no day 29"]),
        ("29 feb 2027 9:00", ["February 2027 has no day 29"]),
        ("2026-13-01 9:00", ["there is no month 13"]),
        ("tomorrow midnight", ['"2026-11-16 00:00" or "2026-11-17 00:00"']),
        ("tonight 16:30", ["is not in the evening"]),
        ("13pm", ["pm goes with hours from 1 to 12"]),
        ("tomorrow 24:00", ["not a time of day: from 00:00 to 23:59"]),
        ("2 hours ago", ["is past"]),
        ("yesterday 9am", ["(Sat 14 Nov 2026) is past"]),
        ("now", ["is now"]),
        ("in 0 minutes", ["is now"]),
        ("in 2 months", ["vary in length: write the date"]),
        ("in 1.5 days", ["a part of a day: write it in hours"]),
        ("in 20", ['write "in 20 minutes"']),
        ("tomorow 9am", ['because of "tomorow". Did you mean "tomorrow"?']),
        ("tomorrow morning 15:00", ["says morning, and 15:00 is not in the morning"]),
        ("this morning", ["(2026-11-15 09:00 Europe/London", 'write "tomorrow morning"']),
        ("tomorrow evening at 3", ["3 am or 3 pm?"]),
        ("tomorrow 9am utc", ['the zone "utc"']),
        ("tomorrow 9am 10am", ['because of "10am"']),
        ("in 900000000 weeks", ["more than 50 years away"]),
        ("2206-01-01 9:00", ["more than 50 years away"]),
        ("soon", ["cannot be read as a time", '"in 20 minutes"']),
        ("   ", ["a time is missing"]),
        ("x" * 500, ["too long"]),
    ],
)
def test_what_is_refused_and_what_it_says(text: str, says: list[str]) -> None:
    message = refused(text)
    for words in says:
        assert words in message


def test_a_time_that_comes_twice_or_never_is_refused_with_both_readings() -> None:
    october = from_datetime(datetime(2026, 10, 20, 1, 30, tzinfo=LONDON))
    twice = refused("2026-10-25 01:30", october)
    assert "comes twice in Europe/London" in twice
    assert '"2026-10-25T01:30:00+01:00" or "2026-10-25T01:30:00+00:00"' in twice
    assert "comes twice" in refused("in 5 days", october)
    march = from_datetime(datetime(2027, 3, 27, 12, 0, tzinfo=LONDON))
    never = refused("tomorrow 1:30", march)
    assert "does not exist in Europe/London" in never
    assert '"2027-03-28T00:30:00+00:00" or "2027-03-28T02:30:00+01:00"' in never
    # Both are taken as they were offered.
    assert read("2026-10-25T01:30:00+00:00", october) == "2026-10-25 01:30"


def test_days_are_those_of_the_calendar_and_hours_are_counted() -> None:
    before = from_datetime(datetime(2026, 10, 24, 12, 0, tzinfo=LONDON))  # clocks go back that night
    assert read("in 1 day", before) == "2026-10-25 12:00"
    assert read("in 24 hours", before) == "2026-10-25 11:00"


def test_the_reading_is_told_with_its_zone_and_how_far_away_it_is() -> None:
    reading = read_time("tomorrow 9am", now=NOW - 5 * 60 * SECOND, zone=LONDON)
    assert reading.describe(NOW - 5 * 60 * SECOND) == "on Mon 16 Nov 2026 09:00 Europe/London (in 17 h 5 m)"


MOMENTS = st.integers(
    from_datetime(datetime(2024, 1, 1, tzinfo=UTC)) // SECOND, from_datetime(datetime(2035, 1, 1, tzinfo=UTC)) // SECOND
)
ZONES = st.sampled_from(
    ["UTC", "Europe/London", "America/New_York", "Australia/Lord_Howe", "America/Santiago", "Asia/Kathmandu"]
).map(ZoneInfo)
VOCABULARY = st.sampled_from(
    [
        *WEEKDAYS,
        *(month[:3] for month in MONTHS),
        *[
            "in",
            "at",
            "on",
            "the",
            "next",
            "this",
            "a",
            "half",
            "an",
            "and",
            "from",
            "now",
            "day",
            "days",
            "hour",
            "hours",
            "after",
        ],
        *[
            "today",
            "tonight",
            "tomorrow",
            "noon",
            "midnight",
            "9am",
            "12pm",
            "9",
            "15:00",
            "24",
            "30",
            "2030",
            "0",
            "99999999999",
        ],
        *["2026-12-01", "2028-02-29", "03/04", "9.30", "1h30m", "²", "٣"],
    ]
)


def understood(text: str, now: int, zone: ZoneInfo) -> int | str:
    """The moment, or the refusal."""
    try:
        return read_time(text, now=now, zone=zone).moment
    except InvalidTime as refusal:
        return str(refusal)


@given(words=st.lists(VOCABULARY | st.text(max_size=6), max_size=6), second=MOMENTS, zone=ZONES)
def test_any_text_is_a_time_to_come_or_is_refused_in_words(words: list[str], second: int, zone: ZoneInfo) -> None:
    now = second * SECOND
    reading = understood(" ".join(words), now, zone)
    if isinstance(reading, int):
        assert now < reading <= now + FURTHEST + 2 * 86400 * SECOND
    else:
        assert len(reading) > 10


@given(second=MOMENTS, ahead=st.integers(61, 250 * 86400), zone=ZONES)
def test_a_wall_time_written_out_is_that_moment_in_every_way_of_writing_it(
    second: int, ahead: int, zone: ZoneInfo
) -> None:
    now, moment = second * SECOND, (second + ahead) // 60 * 60 * SECOND
    wall = local(moment, zone)
    month = MONTHS[wall.month - 1]
    hour = wall.hour % 12
    clocks = [f"{wall.hour}:{wall.minute:02}", f"at {wall:%H:%M}"]
    clocks += [f"{hour}:{wall.minute:02}{'pm' if wall.hour >= 12 else 'am'}"] if hour else []
    texts = [f"{day} {clock}" for day in (f"{wall:%Y-%m-%d}", f"{wall.day} {month} {wall.year}") for clock in clocks]
    texts += [f"{clock} on {month[:3]} {wall.day}" for clock in clocks]
    texts += [f"tomorrow {clock}" for clock in clocks if wall.date() - local(now, zone).date() == timedelta(days=1)]
    for text in texts:
        reading = understood(text, now, zone)
        assert reading == moment or (isinstance(reading, str) and "comes twice" in reading)
    assert read_time(wall.isoformat(), now=now, zone=zone).moment == moment


@given(second=MOMENTS, count=st.integers(1, 10_000), zone=ZONES)
def test_a_span_is_counted_whatever_the_clocks_do(second: int, count: int, zone: ZoneInfo) -> None:
    now = second * SECOND
    for unit, length in (("minutes", 60), ("h", 3600), (" seconds", 1)):
        assert read_time(f"in {count} {unit}", now=now, zone=zone).moment == now + count * length * SECOND


@given(second=MOMENTS, days=st.integers(1, 3000), zone=ZONES)
def test_days_away_are_at_the_same_time_of_day(second: int, days: int, zone: ZoneInfo) -> None:
    now = second * SECOND
    moment = understood(f"in {days} days", now, zone)
    if isinstance(moment, str):
        assert "that day" in moment
        return
    start, end = local(now, zone), local(moment, zone)
    assert (end.date() - start.date()).days == days
    assert end.time() == start.time()
