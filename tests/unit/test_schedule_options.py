"""What schedules take beside their times, and how they are written down and read again."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import wakeful
from wakeful import ConfigError, at, cron, every
from wakeful.clock import SECOND, duration, from_datetime, to_datetime, written
from wakeful.model import Event
from wakeful.triggers.schedule import GRACE_WITHOUT_CATCH_UP, MAX_AGE, MAX_COUNT, Schedule, Timing, read_definition
from wakeful.triggers.zones import zone_named

HOUR = 3600 * SECOND


def made(**options: Any) -> Schedule:
    return cron("0 8 * * *", **options)


def test_what_is_usual():
    assert made().timing == Timing("queue_one", "latest", None, MAX_AGE, MAX_COUNT, 0, None)
    assert made(catch_up="none").timing.grace == GRACE_WITHOUT_CATCH_UP
    assert made(catch_up="all").timing.overlap == "queue_all"
    assert made().name is None


@pytest.mark.parametrize("kind", [cron, every, at])
def test_every_kind_takes_them(kind):
    first = {cron: "@daily", every: "1h", at: "2026-12-24T18:00"}[kind]
    schedule = kind(
        first,
        name="nightly report",
        overlap="allow",
        catch_up="all",
        max_age="2d",
        max_count=7,
        grace="10m",
        jitter=timedelta(seconds=30),
        expires="6h",
    )
    assert schedule.name == "nightly report"
    assert schedule.timing == Timing("allow", "all", 600 * SECOND, 48 * HOUR, 7, 30 * SECOND, 6 * HOUR)


def test_none_is_as_if_it_were_not_given():
    options = dict.fromkeys(["name", "overlap", "catch_up", "max_age", "max_count", "grace", "jitter", "expires"])
    assert made(**options) == made()


def test_nothing_is_enough_for_grace_and_jitter():
    assert made(grace="0s", jitter=0).timing == Timing(grace=0)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"overlapp": "skip"}, 'unknown option "overlapp". Did you mean "overlap"?'),
        ({"timezone": "UTC"}, 'unknown option "timezone". Did you mean "tz"'),
        ({"colour": "UTC"}, 'unknown option "colour". Known: .*, overlap, .*, tz'),
        ({"overlap": "queue-one"}, 'overlap is one of "queue_one", "skip", .* not \'queue-one\'. Did you mean "queue_one"?'),
        ({"overlap": ["skip"]}, "overlap is one of"),
        ({"catch_up": "last"}, 'catch_up is one of "latest", "none", "all", not \'last\'. Did you mean "latest"?'),
        ({"catch_up": True}, "catch_up is one of"),
        ({"catch_up": "all", "overlap": "queue_one"}, 'would keep only one of them: write overlap="queue_all" or "allow"'),
        ({"catch_up": "all", "overlap": "skip"}, "would keep only one of them"),
        ({"catch_up": "all", "overlap": "replace"}, "would keep only one of them"),
        ({"max_age": "1d"}, 'max_age limits catch_up="all", but this schedule has catch_up="latest"'),
        ({"max_count": 5, "catch_up": "none"}, 'max_count limits catch_up="all"'),
        ({"max_count": 0, "catch_up": "all"}, "max_count must be a whole number from 1 to 100,000, not 0"),
        ({"max_count": True, "catch_up": "all"}, "max_count must be a whole number"),
        ({"max_count": "5", "catch_up": "all"}, "max_count must be a whole number"),
        ({"max_age": "0s", "catch_up": "all"}, "max_age must be longer than zero, not '0s'"),
        ({"grace": "soon"}, "grace: 'soon' is not a duration: write it as"),
        ({"grace": -1}, "grace must be longer than zero, not -1"),
        ({"jitter": True}, "jitter: True is not a duration"),
        ({"jitter": float("inf")}, "jitter: "),
        ({"expires": "0s"}, "expires must be longer than zero"),
        ({"expires": "99999w"}, "expires must be 36525d or less"),
        ({"name": ""}, "the name '' is empty, has spaces around it"),
        ({"name": " nightly"}, "has spaces around it"),
        ({"name": "a\nb"}, "characters that cannot be printed"),
        ({"name": 7}, "a schedule's name is a text of at most 200 characters, not 7"),
        ({"name": "x" * 201}, "a text of at most 200 characters"),
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_refused_with_its_place(options, words):
    with pytest.raises(ConfigError, match=rf"^cron\('0 8 \* \* \*'\): .*{words}"):
        made(**options)


def test_no_event_of_anybody_else_wakes_it():
    match = made().matches(Event("s", "1", "wakeful.schedule"))
    assert not match.matched
    assert match.reason == 'cron("0 8 * * *", tz="UTC") starts its runs by itself'


def test_jitter_is_the_same_each_time_and_spreads_schedules():
    schedule = every("1h", jitter="10m")
    offsets = [schedule.offset("app", f"schedule-{number}") for number in range(200)]
    assert offsets == [schedule.offset("app", f"schedule-{number}") for number in range(200)]
    assert len(set(offsets)) > 190
    assert min(offsets) < 60 * SECOND
    assert max(offsets) > 540 * SECOND
    assert all(0 <= offset <= 600 * SECOND for offset in offsets)
    assert every("1h").offset("app", "a") == 0


# written down, and read again

zones = st.sampled_from(["UTC", "Europe/London", "Australia/Lord_Howe", "America/Santiago", "Asia/Kathmandu"])
terms = st.sampled_from(["*", "0", "*/2", "1-3", "2,3", "1-3/2", "3/2"])
spans = st.integers(0, 10**7).map(lambda second: second * SECOND)


@st.composite
def hours(draw: st.DrawFn) -> str:
    first, last = draw(st.integers(0, 1439)), draw(st.integers(0, 1439))
    last = (last + 1) % 1440 if first == last else last
    return "-".join(f"{minute // 60:02}:{minute % 60:02}" for minute in (first, last))


days = st.sets(st.sampled_from(["mon", "tue", "wed", "thu", "fri", "sat", "sun"]), min_size=1).map(",".join)
seconds = st.integers(1, 86400).map(lambda second: f"{second}s")
options = st.fixed_dictionaries(
    {},
    optional={
        "overlap": st.sampled_from(["queue_one", "skip", "queue_all", "replace", "allow"]),
        "grace": spans.map(written),
        "jitter": spans.map(written),
        "expires": st.integers(10_000_001, 20_000_000).map(lambda second: f"{second}s"),  # longer than any jitter
    },
) | st.fixed_dictionaries(
    {"catch_up": st.just("all")}, optional={"max_age": seconds, "max_count": st.integers(1, 100_000)}
)
schedules = st.one_of(
    st.builds(lambda words, tz, given: cron(" ".join(words), tz=tz, **given), st.tuples(*[terms] * 5).filter(
        lambda words: words[2] != "0" and words[3] != "0"), zones, options),
    st.builds(lambda span, tz, given: every(span, tz=tz, **given), seconds, zones, options),
    st.builds(lambda span, active, on, tz: every(span, active=active, days=on, tz=tz), seconds, hours() | st.none(), days | st.none(), zones),
    st.builds(lambda wall, tz: at(wall, tz=tz), st.datetimes(datetime(1971, 1, 1), datetime(2100, 1, 1)), zones),
    st.builds(lambda second, tz: at(to_datetime(second * SECOND).astimezone(zone_named(tz, where="")), tz=tz), st.integers(10**8, 4 * 10**9), zones),
)  # fmt: skip


@given(schedules)
def test_what_is_written_down_is_read_again(schedule: Schedule):
    stored = json.loads(json.dumps(schedule.definition()))
    assert read_definition(stored) == Schedule(schedule.rule, schedule.timing)
    assert read_definition(stored).definition() == schedule.definition()


@given(schedules)
def test_what_it_says_of_itself_makes_it_again(schedule: Schedule):
    again = eval(schedule.describe(), {name: getattr(wakeful, name) for name in ("cron", "every", "at")})  # noqa: S307
    assert again.rule == schedule.rule
    assert f'tz="{schedule.rule.definition()["zone"]}"' in schedule.describe()


@given(schedules, st.integers(0, 4 * 10**9))
def test_next_and_previous_lead_back_to_each_other(schedule: Schedule, second: int):
    rule, moment = schedule.rule, second * SECOND
    later, earlier = rule.next(moment), rule.previous(moment)
    assert later is None or later > moment
    assert earlier is None or earlier < moment
    if later is not None:
        assert rule.previous(later + 1) == later
        assert rule.next(later - 1) == later
        before = rule.previous(later)
        assert before is None or before <= moment
        assert rule.count(later, later, 5) == (1, later)


@given(st.integers(0, 10**15))
def test_a_span_is_written_as_it_is_read(span: int):
    assert duration(written(span)) == span


def test_a_kind_of_a_newer_version_is_refused_in_words():
    with pytest.raises(ConfigError, match='the kind "moon", which this version does not know'):
        read_definition({"rule": {"kind": "moon", "phase": "full"}})


def test_a_jitter_that_outlasts_its_events_is_refused():
    with pytest.raises(ConfigError, match="it would never start"):
        every("1h", jitter="10m", expires="5m")


BERLIN = "Europe/Berlin"


def moment(text: str) -> int:
    return from_datetime(datetime.fromisoformat(text))


@pytest.mark.parametrize(
    ("schedule", "occurrence", "grace"),
    [
        pytest.param(every("1s"), "2026-01-05T08:00Z", "1m", id="a minute at least"),
        pytest.param(every("10m"), "2026-01-05T08:00Z", "5m", id="half the distance"),
        pytest.param(cron("0 8 * * *", tz="UTC"), "2026-01-05T08:00Z", "12h", id="half a day"),
        pytest.param(cron("0 8 * * 1", tz="UTC"), "2026-01-05T08:00Z", "12h", id="twelve hours at most"),
        pytest.param(cron("0 9,17 * * 1-5", tz="UTC"), "2026-01-05T09:00Z", "4h", id="irregular: until the next one"),
        pytest.param(cron("0 9,17 * * 1-5", tz="UTC"), "2026-01-09T17:00Z", "12h", id="irregular: over a weekend"),
        pytest.param(every("1h", active="08:00-09:00", tz="UTC"), "2026-01-05T08:00Z", "12h", id="outside its hours"),
        pytest.param(cron("0 8 * * *", tz=BERLIN), "2026-03-28T08:00+01:00", "690m", id="a day of 23 hours"),
        pytest.param(cron("0 8 * * *", tz=BERLIN), "2026-10-24T08:00+02:00", "12h", id="a day of 25 hours"),
        pytest.param(cron("0 2,3 * * *", tz=BERLIN), "2026-10-25T02:00+02:00", "1h", id="the hour that comes twice"),
        pytest.param(at("2026-01-05T08:00", tz="UTC"), "2026-01-05T08:00Z", "12h", id="only one"),
        pytest.param(cron("0 8 * * *", grace="5m"), "2026-01-05T08:00Z", "5m", id="as declared"),
        pytest.param(cron("0 8 * * *", grace="0s"), "2026-01-05T08:00Z", "0s", id="none, as declared"),
        pytest.param(cron("0 8 * * *", catch_up="none"), "2026-01-05T08:00Z", "1m", id="no catching up"),
    ],
)
def test_how_late_an_instant_may_be_follows_from_the_distance_to_the_next(
    schedule: Schedule, occurrence: str, grace: str
):
    assert schedule.grace_at(moment(occurrence)) == duration(grace)
    stored = read_definition(schedule.definition())
    assert stored.grace_at(moment(occurrence)) == duration(grace)
