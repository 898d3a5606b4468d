"""A year of random schedules, with both changes of the clock, against somebody who lives through it minute by minute."""

from __future__ import annotations

import random
from bisect import bisect_left, bisect_right

import pytest

from support.oracle import YEAR, ZONES, Sample, moment, samples
from wakeful.triggers.schedule import Rule, counted, occurrences

FIRST, LAST = moment(YEAR[0]), moment(YEAR[1]) - 1
FEW = 800
SAMPLES = list(samples(200, seed=5))


@pytest.mark.parametrize("part", range(2))
@pytest.mark.parametrize("zone", range(4), ids=ZONES)
def test_a_year_of_random_schedules_is_as_somebody_who_lives_through_it(zone: int, part: int):
    for sample in SAMPLES[zone::4][part::2]:
        expected = sample.occurrences(FIRST, LAST)
        rule = sample.schedule().rule
        if len(expected) <= FEW:
            assert list(occurrences(rule, FIRST, LAST)) == expected, sample
            assert backwards(rule) == expected, sample
        check_at_random(rule, expected, sample)


def backwards(rule: Rule) -> list[int]:
    found = []
    occurrence = rule.previous(LAST + 1)
    while occurrence is not None and occurrence >= FIRST:
        found.append(occurrence)
        occurrence = rule.previous(occurrence)
    return found[::-1]


def check_at_random(rule: Rule, expected: list[int], sample: Sample) -> None:
    if not expected:
        return
    assert rule.count(expected[0], LAST, 1_000_000) == (len(expected), expected[-1]), sample
    dice = random.Random(str(sample))
    for _ in range(150):
        there = dice.choice([dice.randrange(FIRST, LAST), dice.choice(expected) + dice.choice([-1, 0, 1])])
        place = bisect_right(expected, there)
        if place < len(expected):
            assert rule.next(there) == expected[place], (sample, there)
        place = bisect_left(expected, there)
        if place:
            assert rule.previous(there) == expected[place - 1], (sample, there)
    for _ in range(10):
        low, high = sorted(dice.choices(range(len(expected)), k=2))
        most = dice.choice([1, high - low + 1, 10_000_000])
        count, seen = rule.count(expected[low], expected[high] + dice.choice([0, 1]), most)
        assert min(most, high - low + 1) <= count <= high - low + 1, sample
        assert seen == expected[low + count - 1], sample


@pytest.mark.parametrize("sample", SAMPLES[:40:3], ids=str)
def test_counting_is_walking(sample: Sample):
    rule = sample.schedule().rule
    first = rule.next(moment(YEAR[0]))
    assert first is not None
    last = first + 9 * 86_400_000_000
    for most in (1, 7, 100_000):
        count, seen = rule.count(first, last, most)
        assert counted(rule, first, last, count) == (count, seen)
        assert count >= most or seen == rule.previous(last + 1)


def test_the_year_of_the_samples_has_changes_and_many_kinds_of_schedules():
    """Otherwise the rest would prove nothing."""
    assert len({sample.code for sample in SAMPLES}) == 200
    assert sum(sample.code.startswith("cron") for sample in SAMPLES) in range(80, 160)
    wakings = [len(sample.occurrences(FIRST, FIRST + 40 * 86_400_000_000)) for sample in SAMPLES[::4]]
    assert sum(count > 0 for count in wakings) > 30
    assert max(wakings) > 10_000
