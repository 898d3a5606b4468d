"""What counts as twice, never and otherwise; and what a person still has to say is none of these."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from wakeful.testing.boundaries import Boundary
from wakeful.testing.deeds import Deed
from wakeful.testing.report import CaseResult, CrashReport, compare


def a_run(state: str = "done", **more: Any) -> dict[str, Any]:
    run = {"id": "1", "agent": "go", "state": state, "reason": None, "error": None, "output": None, "deliveries": []}
    return {**run, "event": {"source": "/shop", "id": "1", "type": "paid"}, **more}


def seen(*runs: dict[str, Any], deeds: list[Deed] | None = None, outside: Any = None) -> CaseResult:
    return CaseResult({run["id"]: run for run in runs or (a_run(),)}, deeds or [], outside)


def deed(safety: str = "idempotent", operation: str = "a") -> Deed:
    return Deed("pay", safety, "[7]", operation)


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ([deed()], [deed(), deed()], []),
        ([deed()], [deed(), deed(operation="b")], ["twice"]),
        ([deed(), deed(operation="b")], [deed()], ["never"]),
        ([deed()], [], ["never"]),
        ([], [deed()], ["otherwise"]),
        ([deed("reconcile")], [deed("reconcile")] * 2, ["twice"]),
        ([deed("at_most_once")] * 2, [deed("at_most_once")] * 2, []),
        ([deed("at_most_once")] * 2, [deed("at_most_once")], ["never"]),
    ],
)
def test_deeds(before: list[Deed], after: list[Deed], told: list[str]):
    assert [kind for kind, _ in compare(seen(deeds=before), seen(deeds=after))] == told


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (["a", "b"], ["b", "a"], []),
        (["a"], ["a", "a"], ["twice"]),
        (["a", "b"], ["a"], ["never"]),
        (["a"], ["a", "b"], ["otherwise"]),
        (Counter(a=1), Counter(a=3), ["twice"]),
        ({"letters": ["a"]}, {"letters": []}, ["never"]),
        ({"balance": {"sam": 3}}, {"balance": {"sam": 2}}, ["never", "otherwise"]),
        (3, 4, ["otherwise"]),
        (None, None, []),
    ],
)
def test_the_outside(before: Any, after: Any, told: list[str]):
    assert [kind for kind, _ in compare(seen(outside=before), seen(outside=after))] == told


def a_delivery(identifier: str, state: str = "delivered") -> dict[str, Any]:
    return {"id": identifier, "channel": "ops", "state": state}


@pytest.mark.parametrize(
    ("after", "told"),
    [
        ([a_delivery("a")], []),
        ([a_delivery("a"), a_delivery("b")], ["twice"]),
        ([a_delivery("a", "dead")], ["never"]),
        ([], ["never"]),
    ],
)
def test_deliveries(after: list[dict[str, Any]], told: list[str]):
    before = seen(a_run(deliveries=[a_delivery("a")]))
    assert [kind for kind, _ in compare(before, seen(a_run(deliveries=after)))] == told


def test_runs():
    done = seen(a_run(output=1))
    assert compare(done, seen(a_run(output=1))) == []
    assert compare(done, seen(a_run(output=2))) == [("otherwise", "agent go returned 2 instead of 1")]
    assert compare(done, seen(a_run(output=2)), outputs=False) == []
    assert compare(done, CaseResult({}, [])) == [("never", "agent go did not run")]
    assert compare(done, seen(a_run("dead", reason="failed 5 times"))) == [
        ("otherwise", "agent go ended dead instead of done (failed 5 times)")
    ]
    assert [kind for kind, _ in compare(done, seen(a_run(output=1), a_run(id="2")))] == ["otherwise"]


def test_what_waits_for_a_person_did_not_never_happen_but_may_have_happened_twice():
    before = seen(a_run(), deeds=[deed()], outside=["a", "b"])
    held = a_run("held", reason="pay: nobody knows")
    assert compare(before, seen(held, outside=["a"])) == []
    assert [kind for kind, _ in compare(before, seen(held, outside=["a", "a"]))] == ["twice"]


def an_event(identifier: str, kind: str = "told") -> dict[str, Any]:
    return {"key": f"key {identifier}", "source": "/shop", "id": identifier, "type": kind}


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (["a"], ["a"], []),
        (["a"], ["a", "b"], ["twice"]),
        (["a"], ["b"], ["otherwise"]),
        ([], ["a"], ["otherwise"]),
        (["a", "b"], ["a"], ["never"]),
        (["1"], ["1", "a"], ["otherwise"]),  # the first is that of the run
    ],
)
def test_events_that_nobody_took(before: list[str], after: list[str], told: list[str]):
    first, then = seen(), seen()
    first.events, then.events = [an_event(one) for one in before], [an_event(one) for one in after]
    assert [kind for kind, _ in compare(first, then)] == told


def test_a_report_is_a_table():
    report = CrashReport(seen(deeds=[deed("reconcile")]))
    report.add(Boundary(9, "before", ("SaveSteps",), "k1", "go: SaveSteps fetch"), seen(deeds=[deed("reconcile")] * 2))
    held = a_run("held", reason="pay: nobody knows")
    report.add(Boundary(9, "after", ("SaveEffect",), "k2", "go: SaveEffect pay"), seen(held))
    assert str(report).splitlines() == [
        "2 boundaries, 1 with problems, 1 held for a person",
        "   1  before go: SaveSteps fetch                go done",
        "      ! pay(7) was done 2 times instead of 1 (reconcile)",
        "   2  after go: SaveEffect pay                  go held",
        "      ? held: go: pay: nobody knows",
    ]
    assert [str(problem) for problem in report.problems] == [
        "pay(7) was done 2 times instead of 1 (reconcile), when the process died at boundary 1, before go: SaveSteps fetch"
    ]
    with pytest.raises(AssertionError, match="a crash at 1 of 2 boundaries shows: 1 × twice"):
        report.check()
