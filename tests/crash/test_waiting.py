"""Killed at every boundary while runs wait: for time, an event, another run, a person. Nothing waits for ever, or comes twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from crash.children.waiting import build
from wakeful.model import FINAL_RUN_STATES
from wakeful.testing import CrashReport, World, crash_everywhere

ORDER = ("order.placed", {"number": 7})
DONE = {"order": "done", "bank": "done", "clerk": "done", "packer": "done"}


def judge(report: CrashReport, *kinds: str) -> None:
    report.check()
    assert all(one.states == DONE for one in report.crashes), str(report)
    stored = {request for one in report.crashes for request in one.boundary.requests}
    assert {"AcceptEvents", "ClaimRuns", "LeaveRun", "AskPerson", "AnswerApproval", *kinds} <= stored
    assert {one.boundary.point for one in report.crashes} == {"before", "within", "after"}


async def test_nobody_waits_for_ever_and_nothing_comes_twice(store_url: str):
    """An order that sleeps, waits for its payment, calls the packer and asks a person: each once, however it is cut."""
    report = await crash_everywhere(build(), ORDER, store=store_url)
    judge(report)
    (order,) = [run for run in report.baseline.runs.values() if run["agent"] == "order"]
    assert order["output"] == ["paid for 7", "packed 7", True]


async def test_nobody_waits_for_ever_when_processes_are_killed(tmp_path: Path, store_url: str):
    program = tmp_path / "waiting.py"
    program.write_text("from crash.children.waiting import build\n\napp = build()\n")
    report = await crash_everywhere(str(program), ORDER, store=store_url, processes=True)
    judge(report)


async def test_a_wait_that_nothing_comes_for_ends_once(store_url: str):
    """The time of a question and of an event runs out: the handler hears of it once, and goes another way."""
    report = await crash_everywhere(build(answers=False), ORDER, store=store_url)
    report.check()
    assert "EndWait" in {request for one in report.crashes for request in one.boundary.requests}
    (order,) = [run for run in report.baseline.runs.values() if run["agent"] == "order"]
    assert order["output"] == ["paid for 7", "packed 7", "nobody answered"]
    for crash in report.crashes:
        assert set(crash.states.values()) <= FINAL_RUN_STATES


@pytest.mark.parametrize("when", ["asleep", "asked"])
async def test_who_takes_over_a_store_of_waiting_runs_needs_nothing_but_the_store(store_url: str, when: str):
    """Nobody is there when the time comes: whoever comes later does what is due."""
    async with World(build(), store=store_url) as world:
        receipt = await world.emit(*ORDER)
        await world.drain(skip=False) if when == "asleep" else await world.drain(at_most="3h")
        assert (await world.run(receipt))["state"] == "waiting"
        clock = world.clock
    clock.move("10d")
    async with World(build(), store=store_url, clock=clock) as world:
        await world.drain()
        assert (await world.run(receipt))["state"] == "done"
