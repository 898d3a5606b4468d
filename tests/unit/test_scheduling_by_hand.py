"""What is given by hand becomes a schedule, and an edit changes only what it says."""

from __future__ import annotations

from typing import Any

import pytest

from wakeful.clock import SECOND
from wakeful.errors import ConfigError
from wakeful.operations.scheduling import edited, made
from wakeful.triggers.schedule import Schedule, read_definition

HOUR = 3600 * SECOND


def an_edit(before: dict[str, Any], **given: Any) -> Schedule:
    stored = read_definition(made(before).definition())  # as it comes out of the store
    found = edited(stored, given)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("given", "rule"),
    [
        ({"cron": "0 8 * * 1-5", "tz": "Europe/London"}, 'cron("0 8 * * 1-5", tz="Europe/London")'),
        ({"cron": "@daily"}, 'cron("@daily", tz="UTC")'),
        ({"at": "2099-12-24T18:00", "tz": "Europe/London"}, 'at("2099-12-24T18:00", tz="Europe/London")'),
    ],
)
def test_a_rule(given: dict[str, Any], rule: str):
    assert made(given).describe() == rule


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "give cron"),
        ({"grace": "1h"}, "give cron"),
        ({"cron": "0 8 * * *", "every": "1h"}, "a schedule has one rule: give cron or every"),
        ({"cron": "0 8 * * *", "days": "mon-fri"}, "days goes with every"),
        ({"every": "soon"}, "is not a duration"),
        ({"every": "1h", "overlap": "skipp"}, "overlap is one of"),
        ({"every": "1h", "max_count": 3}, 'max_count limits catch_up="all"'),
    ],
)
def test_what_cannot_be_meant(given: dict[str, Any], words: str):
    with pytest.raises(ConfigError, match=words):
        made(given)


def test_nothing_given_is_nothing_changed():
    assert edited(made({"every": "1h"}), {}) is None


def test_the_zone_alone():
    found = an_edit({"cron": "0 8 * * *", "tz": "Europe/London", "grace": "5m"}, tz="America/New_York")
    assert found.describe() == 'cron("0 8 * * *", tz="America/New_York")'
    assert found.timing.grace == 300 * SECOND
    moved = an_edit({"at": "2099-07-01T18:00", "tz": "Europe/London"}, tz="America/New_York")
    assert moved.describe() == 'at("2099-07-01T18:00", tz="America/New_York")'


def test_the_rule_alone_keeps_zone_and_options():
    found = an_edit({"cron": "0 8 * * *", "tz": "Europe/London", "jitter": "10s"}, every="30m")
    assert found.rule.definition() == {"kind": "every", "interval": HOUR // 2, "zone": "Europe/London"}
    assert found.timing.jitter == 10 * SECOND


def test_an_option_is_taken_away():
    before = {"every": "1h", "expires": "5m", "overlap": "skip"}
    assert an_edit(before, expires=None).timing.expires is None
    assert an_edit(before, expires=None).timing.overlap == "skip"
    assert an_edit(before, overlap=None).timing.overlap == "queue_one"


def test_what_was_never_chosen_goes_along():
    found = an_edit({"every": "1h"}, catch_up="all").timing
    assert (found.catch_up, found.overlap) == ("all", "queue_all")
    back = an_edit({"every": "1h", "catch_up": "all", "max_count": 7}, catch_up="latest").timing
    assert (back.overlap, back.max_count) == ("queue_one", 100)
    assert an_edit({"every": "1h", "catch_up": "all", "max_count": 7}, grace="5m").timing.max_count == 7
    with pytest.raises(ConfigError, match="would keep only one of them"):
        an_edit({"every": "1h", "overlap": "skip"}, catch_up="all")
