"""When a check has just run, and is not run again."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from wakeful.clock import duration
from wakeful.execution.heartbeat import Memory, WrittenCheck, too_soon

RHYTHM = 'every("30m")'


def at(time: str, day: int = 1) -> datetime:
    hour, _, minute = time.partition(":")
    return datetime(2026, 3, day, int(hour), int(minute), tzinfo=UTC)


def memory(occurrence: str, ran_at: str | None = None, *, by_hand: bool = False, rhythm: str = RHYTHM) -> Memory:
    return Memory(ran_at=at(ran_at or occurrence), instant=at(occurrence), by_hand=by_hand, rhythm=rhythm)


def written(spacing: str = "30m") -> WrittenCheck:
    return WrittenCheck("mail", "Mail", duration(spacing), duration("1m"), "heartbeat", RHYTHM)


@pytest.mark.parametrize(
    ("before", "occurrence", "now"),
    [
        (Memory(), "10:30", "10:30"),
        (memory("10:00"), "10:30", "10:30"),
        (memory("10:00", "10:14"), "10:30", "10:30"),  # late, but not by half
        (memory("10:00"), "10:30", "10:55"),
        (memory("10:00", by_hand=True), "10:30", "10:30"),
        (memory("10:00", rhythm="another"), "10:30", "10:30"),
        (memory("23:00"), "10:30", "10:30"),  # the clock was set back
    ],
)
def test_it_runs(before: Memory, occurrence: str, now: str):
    assert too_soon(before, written(), at(occurrence), at(now)) is None


@pytest.mark.parametrize(
    ("before", "occurrence", "now"),
    [
        (memory("10:01", by_hand=True), "10:30", "10:30"),
        (memory("10:10", rhythm="another"), "10:30", "10:30"),
        (memory("10:00", "10:16"), "10:30", "10:30"),
        (memory("10:05", by_hand=True), "10:00", "10:06"),  # one that was due before somebody was quicker
    ],
)
def test_it_has_just_run(before: Memory, occurrence: str, now: str):
    reason = too_soon(before, written(), at(occurrence), at(now))
    assert reason is not None
    assert reason.startswith("it ran at 2026-03-01T10:")


def test_a_day_of_23_hours_is_a_day():
    before = Memory(ran_at=at("8:00", 28), instant=at("8:00", 28), rhythm=RHYTHM)
    assert too_soon(before, written("1d"), at("7:00", 29), at("7:00", 29)) is None
