"""The log of an outage: one line when it begins, one a minute, one when it is over."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest
from structlog.testing import capture_logs

from wakeful.telemetry.logger import logger_of
from wakeful.telemetry.outage import CURRENT, EVERY, SETTLE, Outage, note_outage, outage_is_over


class Watch:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def watch() -> Watch:
    return Watch()


@pytest.fixture
def outage(watch: Watch) -> Iterator[Outage]:
    made = Outage(clock=watch, app="desk")
    token = CURRENT.set(made)
    yield made
    CURRENT.reset(token)


def seen(logs: Sequence[Mapping[str, Any]]) -> list[Any]:
    return [line["event"] for line in logs if line["log_level"] == "warning"]


def fail(times: int = 1) -> None:
    for _ in range(times):
        note_outage(logger_of(part="worker"), "cannot claim; trying again", ConnectionError("refused"), again_in=1)


def test_many_failures_of_many_parts_are_two_lines(outage: Outage, watch: Watch):
    with capture_logs() as logs:
        for _ in range(40):
            fail(14)
            watch.now += 1
        outage_is_over()
    assert seen(logs) == ["the store is unavailable; all parts try again until it is back", "the store is back"]
    (back,) = [line for line in logs if line["event"] == "the store is back"]
    assert (back["lasted"], back["tries"], back["app"]) == ("40 s", 560, "desk")


def test_each_failure_is_there_for_those_who_ask_for_debug(outage: Outage):
    with capture_logs() as logs:
        fail(3)
    assert [line["part"] for line in logs if line["log_level"] == "debug"] == ["worker"] * 3


def test_a_long_outage_is_told_once_a_minute(outage: Outage, watch: Watch):
    with capture_logs() as logs:
        for _ in range(10):
            fail()
            watch.now += EVERY / 4
    assert seen(logs)[1:] == ["the store is still unavailable"] * 2


def test_a_store_that_was_back_for_a_moment_was_not_back(outage: Outage, watch: Watch):
    with capture_logs() as logs:
        fail()
        watch.now += 20
        outage_is_over()
        watch.now += 1
        fail()
        watch.now += 1
        outage_is_over()
        watch.now += SETTLE
        fail()
    assert seen(logs) == [
        "the store is unavailable; all parts try again until it is back",
        "the store is back",
        "the store is unavailable; all parts try again until it is back",
    ]


def test_a_long_outage_right_after_a_moment_of_being_back_is_told_to_its_end(outage: Outage, watch: Watch):
    with capture_logs() as logs:
        fail()
        watch.now += 20
        outage_is_over()
        for _ in range(90):
            watch.now += 1
            fail()
        outage_is_over()
    assert seen(logs) == [
        "the store is unavailable; all parts try again until it is back",
        "the store is back",
        "the store is unavailable again; all parts try again until it is back",
        "the store is still unavailable",
        "the store is back",
    ]


def test_nothing_was_wrong_so_nothing_is_over(outage: Outage):
    with capture_logs() as logs:
        outage_is_over()
    assert logs == []


def test_where_no_process_tells_the_story_a_part_tells_it_itself():
    with capture_logs() as logs:
        fail()
    assert seen(logs) == ["cannot claim; trying again"]
