"""How well a schedule keeps its time."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from wakeful.clock import SECOND, from_datetime
from wakeful.triggers.cadence import Cadence, FiredOccurrence, cadence_of
from wakeful.triggers.cron import cron
from wakeful.triggers.every import every

MINUTE = 60 * SECOND
MONDAY = from_datetime(datetime(2026, 1, 5, 8, tzinfo=UTC))
DAY = 24 * 60 * MINUTE


def test_nothing_has_fired():
    assert cadence_of(every("10m").rule, 0, []) == Cadence()
    assert Cadence().drift is None


def test_one_firing_has_no_interval():
    found = cadence_of(every("10m").rule, 0, [FiredOccurrence(0, 3 * SECOND)])
    assert (found.late, found.typically_late, found.configured, found.real) == (3 * SECOND, 3 * SECOND, None, None)


def test_instants_that_were_skipped_are_drift():
    fired = [FiredOccurrence(number * MINUTE, number * MINUTE + SECOND) for number in (0, 10, 30, 40, 70)]
    found = cadence_of(every("10m").rule, 0, fired)
    assert (found.occurrences, found.configured, found.real) == (5, 10 * MINUTE, 70 * MINUTE // 4)
    assert found.drift == pytest.approx(0.75)


def test_days_that_the_rule_leaves_out_are_no_drift():
    rule = cron("0 8 * * 1-5", tz="UTC").rule
    fired = [FiredOccurrence(MONDAY + number * DAY, MONDAY + number * DAY) for number in (0, 1, 2, 3, 4, 7, 8)]
    found = cadence_of(rule, 0, fired)
    assert (found.configured, found.real, found.drift) == (8 * DAY // 6, 8 * DAY // 6, 0)


def test_what_is_meant_to_be_later_is_not_late():
    fired = [
        FiredOccurrence(0, 7 * SECOND),
        FiredOccurrence(10 * MINUTE, 10 * MINUTE + 5 * SECOND),
        FiredOccurrence(20 * MINUTE, 20 * MINUTE + 9 * SECOND),
    ]
    found = cadence_of(every("10m").rule, 6 * SECOND, fired)
    assert (found.late, found.typically_late) == (3 * SECOND, SECOND)
