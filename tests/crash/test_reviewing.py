"""Killed at every boundary while a model or a person decides, and while an output is returned."""

from __future__ import annotations

from pathlib import Path

import pytest

from crash.children.reviewing import Way, asked, build, reset, told, written
from wakeful.testing import CrashReport, crash_everywhere

# What each way must have stored, so that a crash right before, within and after that was among the cases.
STORED = {"model": {"SaveSteps"}, "person": {"AskPerson", "AnswerApproval"}, "return": {"ReturnRun", "CommitRun"}}


def judge(report: CrashReport, way: Way) -> None:
    report.check()
    assert {state for one in report.crashes for state in one.states.values()} == {"done"}, str(report)
    for kind in STORED[way]:
        points = {one.boundary.point for one in report.crashes if kind in one.boundary.requests}
        assert points == {"before", "within", "after"}, (kind, str(report))


@pytest.mark.timeout(400)
@pytest.mark.parametrize("way", ["model", "person"])
async def test_a_model_is_asked_once_and_an_answer_never_changes(store_url: str, way: Way):
    """A crash before its answer is stored is the only reason to ask a model again."""
    counts: list[int] = []

    def observe() -> dict[str, int]:
        counts.append(len(asked))
        return {"answers": len(set(told))}

    report = await crash_everywhere(
        build(way), "order.placed", store=store_url, observe=observe, reset=reset, outputs=way == "person"
    )
    judge(report, way)
    assert counts[0] == 1
    again = [one.boundary.point for one, count in zip(report.crashes, counts[1:], strict=False) if count > 1]
    assert sorted(again) == ["before", "within"], str(report)
    assert max(counts) == 2


@pytest.mark.timeout(400)
async def test_an_output_is_returned_once_and_nothing_of_it_leaves(store_url: str):
    rounds: list[set[int]] = []

    def observe() -> dict[str, int]:
        rounds.append(set(written))
        return {}

    report = await crash_everywhere(build("return"), "order.placed", store=store_url, observe=observe, reset=reset)
    judge(report, "return")
    (order,) = [run for run in report.baseline.runs.values() if run["agent"] == "order"]
    assert order["output"] == "HELP"
    assert [one["verb"] for one in order["remedies"]] == ["return"]
    assert {frozenset(one) for one in rounds} == {frozenset({0, 1})}


@pytest.mark.timeout(400)
@pytest.mark.parametrize("way", ["person", "return"])
async def test_it_holds_when_processes_are_killed(tmp_path: Path, way: Way):
    program = tmp_path / "reviewing.py"
    program.write_text(f"from crash.children.reviewing import build\n\napp = build({way!r})\n")
    judge(await crash_everywhere(str(program), "order.placed", processes=True), way)
