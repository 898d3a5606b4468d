"""Killed at every boundary while runs wait: for time, an event, another run, a person. Nothing waits for ever, or comes twice."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from crash.children.waiting import Way, build
from wakeful.testing import CrashReport, World, crash_everywhere

ORDER = ("order.placed", 7)
ENDS = {"event": "paid for 7", "call": "packed 7", "ask": True, "nobody": "no answer came"}
# What each way must have stored, so that a crash right before, within and after that was among the cases.
STORED = {
    "event": {"LeaveRun", "AcceptEvents"},
    "call": {"LeaveRun", "FinishRun"},
    "ask": {"AskPerson", "AnswerApproval"},
    "nobody": {"AskPerson", "EndWait"},
}


def judge(report: CrashReport, way: Way) -> None:
    report.check()
    assert {state for one in report.crashes for state in one.states.values()} == {"done"}, str(report)
    (order,) = [run for run in report.baseline.runs.values() if run["agent"] == "order"]
    assert order["output"] == ENDS[way]
    for kind in STORED[way]:
        points = {one.boundary.point for one in report.crashes if kind in one.boundary.requests}
        assert points == {"before", "within", "after"}, (kind, str(report))


@pytest.mark.timeout(400)
@pytest.mark.parametrize("way", get_args(Way))
async def test_nobody_waits_for_ever_and_nothing_comes_twice(store_url: str, way: Way):
    judge(await crash_everywhere(build(way), ORDER, store=store_url), way)


@pytest.mark.timeout(400)
@pytest.mark.parametrize("way", ["event", "ask"])
async def test_nobody_waits_for_ever_when_processes_are_killed(tmp_path: Path, way: Way):
    program = tmp_path / "waiting.py"
    program.write_text(f"from crash.children.waiting import build\n\napp = build({way!r})\n")
    judge(await crash_everywhere(str(program), ORDER, processes=True), way)


async def test_who_takes_over_a_store_of_waiting_runs_needs_nothing_but_the_store(store_url: str):
    """Nobody is there when the time comes: whoever comes later does what is due."""
    async with World(build("event"), store=store_url) as world:
        receipt = await world.emit(*ORDER)
        await world.drain(skip=False)
        assert (await world.run(receipt))["state"] == "waiting"
        clock = world.clock
    clock.move("10d")
    async with World(build("event"), store=store_url, clock=clock) as world:
        await world.drain()
        assert (await world.run(receipt))["state"] == "done"
