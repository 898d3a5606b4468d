"""Zones: the clock on the wall, what it never shows, and what it shows twice."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakeful import ConfigError, cron
from wakeful.clock import SECOND, from_datetime, to_datetime
from wakeful.triggers.zones import DAY, day_of, jump_over, local, moment_of, showings, spans, zone_named

NAMES = [
    "Europe/London", "America/New_York", "Australia/Lord_Howe", "America/Santiago", "America/Havana", "Africa/Casablanca",
    "Asia/Kathmandu", "Pacific/Apia", "Pacific/Kiritimati", "UTC", "America/St_Johns",
]  # fmt: skip
zones = st.sampled_from(NAMES).map(ZoneInfo)
moments = st.integers(0, 4_000_000_000).map(lambda second: second * SECOND)


@given(moments, zones)
def test_what_the_wall_shows_is_shown_at_that_moment(moment: int, zone: ZoneInfo):
    shown = local(moment, zone)
    wall = from_datetime(shown.replace(tzinfo=None))
    assert moment in showings(wall, zone)
    assert moment_of(shown.replace(tzinfo=None), zone) == moment
    assert day_of(moment, zone) == wall // DAY


@given(moments, zones)
def test_each_wall_is_shown_once_or_twice_or_jumped_over(wall: int, zone: ZoneInfo):
    found = showings(wall, zone)
    assert [from_datetime(local(one, zone).replace(tzinfo=None)) for one in found] == [wall] * len(found)
    assert found == sorted(found)
    if found:
        with pytest.raises(ValueError, match="no clock change skips it"):
            jump_over(wall, zone)
    else:
        jump = jump_over(wall, zone)
        before, after = (from_datetime(local(one, zone).replace(tzinfo=None)) for one in (jump - SECOND, jump))
        assert before < wall < after


@given(moments, zones)
def test_spans_follow_each_other_and_hold_what_they_say(moment: int, zone: ZoneInfo):
    day = moment // DAY
    around = spans(day, zone)
    assert around[0][0] == (day - 1) * DAY
    assert around[-1][1] == (day + 2) * DAY
    assert [one[1] for one in around[:-1]] == [one[0] for one in around[1:]]
    for since, until, offset in around:
        for inside in (since, (since + until) // 2, until - SECOND):
            assert from_datetime(local(inside, zone).replace(tzinfo=None)) - inside == offset


def test_a_gap_and_a_repeated_hour():
    london = ZoneInfo("Europe/London")
    assert moment_of(datetime(2026, 3, 29, 1, 30), london) == from_datetime(datetime(2026, 3, 29, 1))
    assert moment_of(datetime(2026, 10, 25, 1, 30), london) == from_datetime(datetime(2026, 10, 25, 0, 30))
    assert moment_of(datetime(2026, 10, 25, 1, 30, fold=1), london) == from_datetime(datetime(2026, 10, 25, 1, 30))


def test_a_whole_day_that_was_left_out():
    apia = ZoneInfo("Pacific/Apia")
    jump = moment_of(datetime(2011, 12, 30, 12), apia)
    assert to_datetime(jump) == datetime(2011, 12, 30, 10, tzinfo=UTC)
    assert local(jump, apia).day == 31


def test_the_zone_of_the_settings_is_taken_where_none_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("WAKEFUL_TIME_ZONE", raising=False)
    assert zone_named(None, where="here").key == "UTC"
    monkeypatch.setenv("WAKEFUL_TIME_ZONE", "Asia/Tokyo")
    assert zone_named(None, where="here").key == "Asia/Tokyo"
    assert zone_named("Europe/London", where="here").key == "Europe/London"
    assert cron("@daily").describe() == 'cron("@daily", tz="Asia/Tokyo")'
    monkeypatch.setenv("WAKEFUL_TIME_ZONE", "Asia/Tokio")
    with pytest.raises(
        ConfigError, match=r'here: there is no zone \'Asia/Tokio\' \(from WAKEFUL_TIME_ZONE\).*"Asia/Tokyo"'
    ):
        zone_named(None, where="here")


@pytest.mark.parametrize(
    "name", ["", "Europe/Londn", "europe", "../etc/passwd", "/etc/localtime", "a\0b", 7, "GMT+25", "Europe"]
)
def test_a_zone_that_does_not_exist_is_refused(name):
    with pytest.raises(
        ConfigError, match=r'^here: there is no zone .* Zones are named like "Europe/London"'
    ) as refused:
        zone_named(name, where="here")
    assert "Known:" not in str(refused.value), "there are six hundred"
