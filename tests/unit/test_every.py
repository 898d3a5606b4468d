"""every(): intervals, and the hours and days inside which they are counted."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from wakeful import ConfigError, every
from wakeful.clock import SECOND, from_datetime, to_datetime
from wakeful.triggers.schedule import Schedule, occurrences

DAY = 86400 * SECOND


def wakings(schedule: Schedule, zone: str, first: str, hours: float = 24) -> list[str]:
    """The times on the wall at which it wakes, from a time on, so many hours long."""
    start = from_datetime(datetime.fromisoformat(first).replace(tzinfo=ZoneInfo(zone)))
    found = occurrences(schedule.rule, start, start + round(hours * 3600) * SECOND - 1)
    return [f"{to_datetime(one).astimezone(ZoneInfo(zone)):%a %H:%M}" for one in found]


def test_an_interval_is_counted_from_1970_and_no_clock_on_a_wall_matters():
    schedule = every("8h", tz="Europe/London")
    assert wakings(schedule, "UTC", "2026-03-29") == ["Sun 00:00", "Sun 08:00", "Sun 16:00"]
    assert every("7h").rule.next(0) == 7 * 3600 * SECOND
    assert every("7h").rule.previous(1) == 0
    assert every("90s").rule.count(0, 900 * SECOND, 10_000) == (11, 900 * SECOND)


def test_with_hours_it_begins_anew_at_their_start_and_their_end_is_out():
    schedule = every("5h", active="08:00-20:00")
    assert wakings(schedule, "UTC", "2026-01-01", 48) == [
        "Thu 08:00", "Thu 13:00", "Thu 18:00", "Fri 08:00", "Fri 13:00", "Fri 18:00",
    ]  # fmt: skip
    assert wakings(every("6h", active="08:00-20:00"), "UTC", "2026-01-01") == ["Thu 08:00", "Thu 14:00"]


def test_with_days_it_begins_anew_at_each_midnight():
    schedule = every("7h", days="mon-fri", tz="Asia/Tokyo")
    assert wakings(schedule, "Asia/Tokyo", "2026-01-02", 5 * 24) == [
        "Fri 00:00", "Fri 07:00", "Fri 14:00", "Fri 21:00",
        "Mon 00:00", "Mon 07:00", "Mon 14:00", "Mon 21:00",
        "Tue 00:00", "Tue 07:00", "Tue 14:00", "Tue 21:00",
    ]  # fmt: skip


def test_a_night_belongs_to_the_day_on_which_it_begins():
    schedule = every("3h", active="22:00-06:00", days="fri")
    assert wakings(schedule, "UTC", "2026-01-01", 7 * 24) == ["Fri 22:00", "Sat 01:00", "Sat 04:00"]
    friday = from_datetime(datetime(2026, 1, 2, 22))
    assert schedule.rule.previous(friday + 10 * 3600 * SECOND) == friday + 6 * 3600 * SECOND
    assert schedule.rule.previous(friday) == friday - 7 * DAY + 6 * 3600 * SECOND


def test_an_interval_longer_than_the_hours_is_one_a_day():
    assert wakings(every("1d", active="08:00-09:00"), "UTC", "2026-01-01", 48) == ["Thu 08:00", "Fri 08:00"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("mon-fri", (0, 1, 2, 3, 4)),
        ("sat,sun", (5, 6)),
        ("mon,wed-fri", (0, 2, 3, 4)),
        ("fri-mon", (0, 4, 5, 6)),
        (" Monday , SUN ", (0, 6)),
        ("tue-tue", (1,)),
        ("mon-sun", (0, 1, 2, 3, 4, 5, 6)),
    ],
)
def test_days(text, expected):
    assert every("1h", days=text).rule.definition()["days"] == list(expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("08:00-20:00", (480, 1200)),
        ("8:00 - 20:30", (480, 1230)),
        ("8-20", (480, 1200)),
        ("22:00-06:00", (1320, 1800)),
        ("20:00-00:00", (1200, 1440)),
        ("20:00-24:00", (1200, 1440)),
        ("00:00-24:00", (0, 1440)),
    ],
)
def test_hours(text, expected):
    assert every("1h", active=text).rule.definition()["active"] == list(expected)


# On the days on which clocks change


def test_the_hours_are_those_of_the_wall_and_the_steps_are_absolute():
    schedule = every("1h", active="00:30-04:30", tz="Europe/London")
    assert wakings(schedule, "Europe/London", "2026-03-28") == ["Sat 00:30", "Sat 01:30", "Sat 02:30", "Sat 03:30"]
    assert wakings(schedule, "Europe/London", "2026-03-29", 23) == ["Sun 00:30", "Sun 02:30", "Sun 03:30"]
    assert wakings(schedule, "Europe/London", "2026-10-25") == [
        "Sun 00:30", "Sun 01:30", "Sun 01:30", "Sun 02:30", "Sun 03:30",
    ]  # fmt: skip


def test_hours_that_begin_in_a_gap_begin_when_the_clock_has_jumped():
    assert wakings(every("1h", active="02:15-05:00", tz="America/New_York"), "America/New_York", "2026-03-08") == [
        "Sun 03:00", "Sun 04:00",
    ]  # fmt: skip


def test_hours_that_the_clock_jumps_over_are_none():
    schedule = every("10m", active="02:10-02:50", tz="America/New_York")
    assert wakings(schedule, "America/New_York", "2026-03-08") == []
    assert len(wakings(schedule, "America/New_York", "2026-03-07")) == 4


def test_hours_that_come_twice_are_the_first():
    schedule = every("20m", active="01:00-01:40", tz="Europe/London")
    first = from_datetime(datetime(2026, 10, 25, 0, 0, tzinfo=UTC))
    found = occurrences(schedule.rule, first, first + 20 * 3600 * SECOND)
    assert list(found) == [first, first + 1200 * SECOND]


def test_a_day_that_begins_in_a_gap_begins_when_the_clock_has_jumped():
    schedule = every("12h", days="sun", tz="America/Santiago")
    assert wakings(schedule, "America/Santiago", "2026-09-05", 48) == ["Sun 01:00", "Sun 13:00"]


def test_a_day_that_a_zone_leaves_out_has_no_instants():
    """Samoa went from Thursday to Saturday."""
    schedule = every("12h", days="thu-sat", tz="Pacific/Apia")
    assert wakings(schedule, "Pacific/Apia", "2011-12-29", 48) == ["Thu 00:00", "Thu 12:00", "Sat 00:00", "Sat 12:00"]


def test_it_says_what_it_is():
    assert every("90m").describe() == 'every("1h30m", tz="UTC")'
    assert every(timedelta(seconds=30), tz="Asia/Tokyo").describe() == 'every("30s", tz="Asia/Tokyo")'
    assert (
        every("30m", active="8-20", days="mon,tue,wed,sat", tz="Europe/London").describe()
        == 'every("30m", active="08:00-20:00", days="mon-wed,sat", tz="Europe/London")'
    )
    assert every("1h", active="22:00-6:00").describe() == 'every("1h", active="22:00-06:00", tz="UTC")'


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("0s",), r'the shortest interval is one second: write every\("1s"\)'),
        ((timedelta(seconds=-5),), "the shortest interval is one second"),
        ((-1,), "the shortest interval is one second"),
        (("500ms",), "the shortest interval is one second"),
        (("50000w",), "the longest interval is 36525d"),
        ((float("inf"),), "cannot convert float infinity"),
        ((float("nan"),), "cannot convert float NaN"),
        (("daily",), "is not a duration: write it as"),
        ((None,), "is not a duration: write it as"),
    ],
)
def test_what_is_no_interval_is_refused(arguments, words):
    with pytest.raises(ConfigError, match=rf"^every\(.*{words}"):
        every(*arguments)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"active": "morning"}, "active='morning' cannot be read: write it as \"08:00-20:00\""),
        ({"active": "08:00"}, "active='08:00' cannot be read"),
        ({"active": "08:00-25:00"}, "cannot be read"),
        ({"active": "08:60-20:00"}, "cannot be read"),
        ({"active": ""}, "cannot be read"),
        ({"active": ("08:00", "20:00")}, "active is a text: write it as"),
        ({"active": "08:00-08:00"}, 'ends when it begins: for the whole day, write "00:00-24:00" or leave it out'),
        ({"active": "24:00-08:00"}, "begins after the end of the day: write 00:00"),
        ({"days": "mon-fry"}, 'there is no day "fry". Did you mean "friday".* Write them as "mon-fri"'),
        ({"days": "wendesday"}, 'Did you mean "wednesday"'),
        ({"days": "mon,,tue"}, "days='mon,,tue' cannot be read: write them as \"mon-fri\""),
        ({"days": ""}, "cannot be read"),
        ({"days": ["mon"]}, "days is a text: write them as"),
        ({"tz": "Europe/Londn"}, r"no zone 'Europe/Londn'. Did you mean \"Europe/London\""),
    ],
)
def test_hours_and_days_that_cannot_be_read_are_refused(options, words):
    with pytest.raises(ConfigError, match=rf"^every\('1h'\): .*{words}"):
        every("1h", **options)


def test_an_interval_of_days_and_hours_of_a_day_cannot_both_be_meant():
    with pytest.raises(ConfigError, match=r"restarts each day.* write every\(\"1d\"\), or leave them out"):
        every("2d", active="08:00-20:00")
    with pytest.raises(ConfigError, match="restarts each day"):
        every("1w", days="mon")
    assert every("1w").rule.next(0) == 7 * DAY
