"""SIGKILL while a program runs, and at every boundary around it: it never runs twice unless it may, and never outlives its worker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from crash.children.workload import Counter
from crash.conftest import NewPlace
from crash.harness import KILLED, Nursery, Place, a_few_at_once
from wakeful.testing.children import state_of
from wakeful.testing.waiting import until

NAMES = ("script", "script.repeatable")


def event(name: str) -> tuple[str, str, Any]:
    return f"{name}.run", "e", None


def is_gone(pid: int) -> bool:
    try:
        return state_of(pid) == "Z"
    except OSError:
        return True


async def test_kill_9_in_the_middle_leaves_a_dead_letter_and_no_program(place: Place, nursery: Nursery, tmp_path: Path):
    counter = Counter(place.counter)
    async with nursery.child(place.plan(emit=[event("script")], gate=str(tmp_path / "gate"))) as child:
        await until(lambda: counter.count("script", "start"))
        child.kill()
        assert await child.ends() == KILLED
    ((_, _, pid),) = counter.lines()
    await until(lambda: is_gone(pid))
    (tmp_path / "gate").touch()
    async with nursery.child(place.plan(emit=[("script.run", "next", None)], done=2)) as following:
        assert await following.ends() == 0
    dead, after = await place.runs()
    assert (dead.state, dead.crashes, dead.error["type"]) == ("dead", 1, "CommandInterrupted")
    assert "it is unknown" in dead.error["message"]
    assert (after.state, after.output["stdout"]) == ("done", "done\n"), "the next one is not blocked"
    assert counter.count("script", "start") == 2
    assert [dead.id in text for _, text, _ in await place.alarms()] == [True]


@pytest.mark.parametrize("name", NAMES)
async def test_a_crash_at_any_boundary_runs_nothing_twice_that_may_not(
    new_place: NewPlace, nursery: Nursery, name: str
):
    place = await new_place()
    code, said = await nursery.carry_out(place.plan(emit=[event(name)], done=1, say_boundaries=True))
    assert code == 0, said
    passed = [line for line in said if line["says"] == "passed"]
    first = next(line["number"] for line in passed if "AcceptEvents" in line["requests"])
    last = max(line["number"] for line in passed if "FinishRun" in line["requests"])
    await place.leave()
    ends = await a_few_at_once(crash(new_place, nursery, name, number) for number in range(first, last + 1))
    assert {state for state, _ in ends} == ({"done"} if name == "script.repeatable" else {"done", "dead"})
    for state, runs in ends:
        if name == "script":
            assert runs <= 1
        assert runs >= 1 or state == "dead"


async def crash(new_place: NewPlace, nursery: Nursery, name: str, boundary: int) -> tuple[str, int]:
    """One process dies at a boundary, another takes over: how the run ended, and how often the program ran."""
    place = await new_place()
    for more in ({"crash_at": boundary}, {}):
        async with nursery.child(place.plan(emit=[event(name)], done=1, **more)) as child:
            assert await child.ends() == (KILLED if child.where else 0)
    (run,) = await place.runs()
    counted = Counter(place.counter).count(name, "start")
    await place.leave()
    return run.state, counted
