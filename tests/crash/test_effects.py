"""SIGKILL at every boundary of a run with effects, and a count of what was done outside of every process."""

from __future__ import annotations

from collections import Counter as Tally
from typing import Any

import pytest

from crash.children.workload import Counter
from crash.conftest import NewPlace
from crash.harness import KILLED, Nursery, Place, a_few_at_once


def event(safety: str) -> tuple[str, str, Any]:
    return f"effect.{safety}", "e", None


@pytest.mark.parametrize("safety", ["idempotent", "reconcile", "at_most_once"])
async def test_a_crash_at_any_boundary_repeats_no_effect_silently(new_place: NewPlace, nursery: Nursery, safety: str):
    place = await new_place()
    code, said = await nursery.carry_out(place.plan(emit=[event(safety)], done=1, say_boundaries=True))
    assert code == 0, said
    passed = [line for line in said if line["says"] == "passed"]
    kinds = {kind for line in passed for kind in line["requests"]}
    assert {"OpenEffect", "SaveEffect", "FinishRun"} <= kinds
    first = next(line["number"] for line in passed if "AcceptEvents" in line["requests"])
    last = max(line["number"] for line in passed if "FinishRun" in line["requests"])
    await place.leave()
    outcomes = await a_few_at_once(crash(new_place, nursery, safety, [{"crash_at": n}]) for n in range(first, last + 1))
    if safety == "at_most_once":
        assert {"done", "held"} <= set(outcomes), "some crashes leave nothing open, and some do"
    else:
        assert set(outcomes) == {"done"}


@pytest.mark.parametrize("safety", ["idempotent", "reconcile", "at_most_once"])
async def test_a_crash_while_an_open_effect_is_settled_repeats_nothing_either(
    new_place: NewPlace, nursery: Nursery, safety: str
):
    """The first process dies right after a call; the one that settles it dies too, at any boundary of its own."""
    called = {"crash_on": ("before", ["SaveEffect"])}  # what became of it is about to be stored
    outcomes = await a_few_at_once(crash(new_place, nursery, safety, [called, {"crash_at": n}]) for n in range(1, 19))
    assert set(outcomes) == ({"held"} if safety == "at_most_once" else {"done"})


async def crash(new_place: NewPlace, nursery: Nursery, safety: str, boundaries: list[dict[str, Any]]) -> str:
    """One process after the other dies at a boundary, the last one takes over. How the run ended."""
    place = await new_place()
    for boundary in (*boundaries, {}):
        async with nursery.child(place.plan(emit=[event(safety)], done=1, **boundary)) as child:
            assert await child.ends() == (KILLED if child.where else 0)
    (run,) = await place.runs()
    await check(place, safety, run.state, kills=len(boundaries))
    await place.leave()
    return str(run.state)


async def check(place: Place, safety: str, state: str, *, kills: int) -> None:
    lines = [name for _, name, _ in Counter(place.counter).lines()]
    calls = Tally(name for name in lines if name != "looked")
    rows = await place.query("select id, state, tries from wakeful_effect")
    assert set(calls) <= {row[0] for row in rows}, "something was done that is in no ledger"
    if safety == "idempotent":
        assert len(calls) == 2, "two operations, however often each was called"
        assert max(calls.values()) <= 1 + kills
    else:
        assert all(count == 1 for count in calls.values()), "called twice"
    if state == "done":
        assert {row[1] for row in rows} == {"confirmed"}
        assert len(calls) == 2
    else:
        assert "held" in {row[1] for row in rows}
