"""cron(): five fields, the days on which clocks change, and what cannot be read."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from wakeful import ConfigError, cron
from wakeful.clock import from_datetime, to_datetime
from wakeful.triggers.base import Trigger
from wakeful.triggers.schedule import occurrences

DAY = 86_400_000_000


def wakings(expression: str, zone: str, day: str, days: int = 1) -> list[str]:
    """The times on the wall at which it wakes, from the local midnight of a day on, with the offset."""
    first = from_datetime(datetime.fromisoformat(day).replace(tzinfo=ZoneInfo(zone)))
    last = from_datetime(datetime.fromtimestamp(first / 1e6 + (days + 0.2) * 86400, UTC))
    end = datetime.fromisoformat(day).toordinal() + days
    rule = cron(expression, tz=zone).rule
    shown = [to_datetime(moment).astimezone(ZoneInfo(zone)) for moment in occurrences(rule, first, last)]
    return [f"{one:%H:%M%z}" for one in shown if one.toordinal() < end]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("0 8 * * 1-5", ["08:00+0000"]),
        ("@daily", ["00:00+0000"]),
        ("@midnight", ["00:00+0000"]),
        ("*/30 9-10 * * *", ["09:00+0000", "09:30+0000", "10:00+0000", "10:30+0000"]),
        ("15 6,18 * * THU", ["06:15+0000", "18:15+0000"]),
        ("0 9 1 1 mon", ["09:00+0000"]),  # the day of the month or the day of the week
        ("0 9 */2 * mon", []),  # with a star in one of them both must fit
        ("0 9 * feb *", []),
        ("0 9 L * *", []),
        ("  0   9 * * 4 ", ["09:00+0000"]),
    ],
)
def test_fields(expression, expected):
    """The first of January 2026 is a Thursday."""
    assert wakings(expression, "Europe/London", "2026-01-01") == expected


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("@yearly", "0 0 1 1 *"),
        ("@annually", "0 0 1 1 *"),
        ("@monthly", "0 0 1 * *"),
        ("@weekly", "0 0 * * 0"),
        ("@daily", "0 0 * * *"),
        ("@hourly", "0 * * * *"),
        ("@Hourly", "0 * * * *"),
    ],
)
def test_names_are_short_for_fields(name, fields):
    named, plain = cron(name).rule, cron(fields).rule
    moment = from_datetime(datetime(2026, 5, 5, 5, 5))
    for _ in range(5):
        assert named.next(moment) == plain.next(moment)
        moment = plain.next(moment) or 0


# On the days on which clocks change: as Debian's cron does it.


@pytest.mark.parametrize(
    ("zone", "day", "expression", "expected"),
    [
        # London jumps from 01:00 to 02:00 on 29 March 2026.
        ("Europe/London", "2026-03-29", "30 1 * * *", ["02:00+0100"]),
        ("Europe/London", "2026-03-29", "0,15,30 1 * * *", ["02:00+0100"]),
        ("Europe/London", "2026-03-29", "0 1,2 * * *", ["02:00+0100"]),
        ("Europe/London", "2026-03-29", "30 1,2 * * *", ["02:00+0100", "02:30+0100"]),
        ("Europe/London", "2026-03-29", "30 */3 * * *", [f"{hour:02}:30+0{hour > 1:d}00" for hour in range(0, 24, 3)]),
        ("Europe/London", "2026-03-29", "*/30 1 * * *", []),
        ("Europe/London", "2026-03-29", "0 * * 3 *", [f"{hour:02}:00+0{hour > 1:d}00" for hour in range(24) if hour != 1]),
        # And goes back from 02:00 to 01:00 on 25 October.
        ("Europe/London", "2026-10-25", "30 1 * * *", ["01:30+0100"]),
        ("Europe/London", "2026-10-25", "*/30 1 * * *", ["01:00+0100", "01:30+0100", "01:00+0000", "01:30+0000"]),
        ("Europe/London", "2026-10-25", "30 1-2 * * *", ["01:30+0100", "02:30+0000"]),
        # New York: 02:00 to 03:00 on 8 March, and 02:00 to 01:00 on 1 November.
        ("America/New_York", "2026-03-08", "15 2 * * *", ["03:00-0400"]),
        ("America/New_York", "2026-03-08", "15 2,3 * * *", ["03:00-0400", "03:15-0400"]),
        ("America/New_York", "2026-11-01", "15 1 * * *", ["01:15-0400"]),
        ("America/New_York", "2026-11-01", "*/20 1 * * *", [f"01:{m:02}-0{h}00" for h in (4, 5) for m in (0, 20, 40)]),
        # Lord Howe: 02:00 to 02:30 on 4 October, and 02:00 to 01:30 on 5 April.
        ("Australia/Lord_Howe", "2026-10-04", "15 2 * * *", ["02:30+1100"]),
        ("Australia/Lord_Howe", "2026-10-04", "0,45 2 * * *", ["02:30+1100", "02:45+1100"]),
        ("Australia/Lord_Howe", "2026-10-04", "0 */2 4 * *", [f"{h:02}:00+1{h > 1:d}{30 * (h < 2):02}" for h in range(0, 24, 2) if h != 2]),
        ("Australia/Lord_Howe", "2026-04-05", "45 1 * * *", ["01:45+1100"]),
        ("Australia/Lord_Howe", "2026-04-05", "*/15 1 * * *", ["01:00+1100", "01:15+1100", "01:30+1100", "01:45+1100", "01:30+1030", "01:45+1030"]),
        ("Australia/Lord_Howe", "2026-04-05", "0 */2 5 * *", ["00:00+1100", *(f"{h:02}:00+1030" for h in range(2, 24, 2))]),
        # Santiago: 24:00 to 01:00 in the night to 6 September, and 24:00 to 23:00 in the night to 5 April.
        ("America/Santiago", "2026-09-06", "@daily", ["01:00-0300"]),
        ("America/Santiago", "2026-09-06", "30 0 * * 0", ["01:00-0300"]),
        ("America/Santiago", "2026-09-06", "0 0,1 * * *", ["01:00-0300"]),
        ("America/Santiago", "2026-04-04", "30 23 * * *", ["23:30-0300"]),
        ("America/Santiago", "2026-04-04", "30 */23 * * *", ["00:30-0300", "23:30-0300", "23:30-0400"]),
        ("America/Santiago", "2026-04-05", "@daily", ["00:00-0400"]),
    ],
)  # fmt: skip
def test_days_on_which_clocks_change(zone, day, expression, expected):
    assert wakings(expression, zone, day) == expected


def test_a_time_that_was_shown_first_does_not_come_again_when_it_is_asked_for_in_the_second_showing():
    rule = cron("30 1 * * *", tz="Europe/London").rule
    second = from_datetime(datetime(2026, 10, 25, 1, 10, fold=1, tzinfo=ZoneInfo("Europe/London")))
    assert to_datetime(rule.next(second) or 0) == datetime(2026, 10, 26, 1, 30, tzinfo=UTC)
    assert to_datetime(rule.previous(second) or 0) == datetime(2026, 10, 25, 0, 30, tzinfo=UTC)


def test_a_clock_that_is_set_back_over_midnight_shows_two_days_by_turns():
    """In St. John's, until 2011, at one minute past midnight: Sunday begins, and it is Saturday again."""
    zone = "America/St_Johns"
    rule = cron("*/30 * * * *", tz=zone).rule
    first = from_datetime(datetime(2010, 11, 6, 23, 0, tzinfo=ZoneInfo(zone)))
    found = list(occurrences(rule, first, first + 3 * 3_600_000_000))
    assert found == sorted(found)
    shown = [f"{to_datetime(one).astimezone(ZoneInfo(zone)):%d %H:%M}" for one in found]
    assert shown == ["06 23:00", "06 23:30", "07 00:00", "06 23:30", "07 00:00", "07 00:30", "07 01:00"]
    assert rule.count(first, found[-1], 100) == (7, found[-1])
    back = [found[-1]]
    while back[-1] > first:
        back.append(rule.previous(back[-1]) or 0)
    assert back[::-1] == found


def test_instants_are_between_the_microseconds_that_are_asked_for():
    rule = cron("0 8 * * *", tz="UTC").rule
    eight = from_datetime(datetime(2026, 1, 1, 8))
    assert rule.next(eight - 1) == eight
    assert rule.next(eight) == eight + DAY
    assert rule.previous(eight + 1) == eight
    assert rule.previous(eight) == eight - DAY


def test_many_are_counted_at_once():
    rule = cron("* * * * *", tz="Europe/London").rule
    first = from_datetime(datetime(2026, 3, 20))
    assert rule.count(first, first + 10_000 * DAY, 20_000) == (20_000, first + 19_999 * 60_000_000)


def test_rare_ones_are_found():
    rule = cron("0 0 29 2 *", tz="UTC").rule
    assert to_datetime(rule.next(from_datetime(datetime(2025, 1, 1))) or 0) == datetime(2028, 2, 29, tzinfo=UTC)
    assert to_datetime(rule.previous(from_datetime(datetime(2028, 1, 1))) or 0) == datetime(2024, 2, 29, tzinfo=UTC)
    fifth = cron("0 0 * 2 1#5", tz="UTC").rule
    assert to_datetime(fifth.next(from_datetime(datetime(2073, 1, 1))) or 0) == datetime(2112, 2, 29, tzinfo=UTC)


def test_it_is_a_value_that_says_what_it_is():
    assert cron("0 8 * * 1-5", tz="Europe/London") == cron(" 0 8 *  * 1-5", tz=ZoneInfo("Europe/London"))
    assert cron("0 8 * * *") != cron("0 8 * * *", tz="Asia/Tokyo")
    assert len({cron("@daily"), cron("@daily"), cron("@hourly")}) == 2
    trigger: Trigger = cron("0 8 * * 1-5", tz="Europe/London")
    assert isinstance(trigger, Trigger)
    assert trigger.describe() == 'cron("0 8 * * 1-5", tz="Europe/London")'
    assert cron("@daily").describe() == 'cron("@daily", tz="UTC")'


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("0 25 * * *", "the hour is '25': 0 to 23"),
        ("60 * * * *", "the minute is '60': 0 to 59"),
        ("0,15,75 * * * *", "the minute is '75': 0 to 59"),
        ("0 0 32 * *", "the day of month is '32': 1 to 31, L for the last day or LW"),
        ("0 0 0 * *", "the day of month is '0': 1 to 31"),
        ("0 0 * 13 *", "the month is '13': 1 to 12 or JAN to DEC"),
        ("0 0 * Foo *", "the month is 'Foo': 1 to 12 or JAN to DEC"),
        ("0 0 * * 8", "the day of week is '8': 0 to 7, where 0 and 7 are Sunday"),
        ("0 0 * * 1#6", "the day of week is '1#6'"),
        ("0 0 * * ?", "the day of week is '?'"),
        ("*/0 * * * *", "the minute is '*/0': a step is a whole number from 1 on, like */5"),
        ("*/x * * * *", "the minute is '*/x': a step is a whole number"),
        ("0 20-8 * * *", "the hour is '20-8': a range goes upwards: write 20-23,0-8"),
        ("0 0 * * fri-mon", "the day of week is 'fri-mon': a range goes upwards: write it as two"),
        ("0 8- * * *", "the hour is '8-': 0 to 23"),
        ("0 1,,2 * * *", "the hour is '': 0 to 23"),
        ("-5 * * * *", "the minute is '-5'"),
        ("0 ٣ * * *", "the hour is"),
        ("0 0 8 * * *", "six fields instead of five: .* Seconds are not supported: leave them out, or write every"),
        ("0 8 * *", "4 fields instead of five: minute, hour, day of month, month, day of week"),
        ("8", "one field instead of five"),
        ("", "no fields instead of five"),
        ("@dayly", '@dayly.*Did you mean "@daily"'),
        ("@reboot", "no @reboot: agents wake on events and times"),
        ("0 0 30 2 *", "it never fires: the day of month is '30', but month 2 has at most 29 days"),
        ("0 0 31 4,jun */2", "it never fires: the day of month is '31', but month 4,jun has at most 30 days"),
        ("0 0 */30 4 1#5", "it never fires: no day within 50 years matches all of its fields"),
        ("* * * * *" + ",1" * 300, "characters, but at most 500 are allowed"),
        (None, "the fields must be text"),
        (7, "the fields must be text"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_field(expression, words):
    with pytest.raises(ConfigError, match=rf"(?s)^cron\(.*{words.replace('*/', '[*]/').replace('?', '[?]')}"):
        cron(expression)
