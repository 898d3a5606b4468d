"""SIGKILL at every boundary of every commit: before it, within it when only the COMMIT is missing, and after it."""

from __future__ import annotations

import asyncio
from collections import Counter as Tally
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from crash.children.workload import STEPS, Counter, expected
from crash.conftest import NewPlace
from crash.harness import Nursery, Place

KILLED = -9
AT_ONCE = 4
CASES_UNDER_LOAD = 12


@pytest.fixture
async def nurseries(tmp_path: Path) -> AsyncIterator[asyncio.Queue[Nursery]]:
    free: asyncio.Queue[Nursery] = asyncio.Queue()
    async with AsyncExitStack() as stack:
        for number in range(AT_ONCE):
            nursery = Nursery(tmp_path / f"nursery-{number}.log")
            free.put_nowait(await stack.enter_async_context(nursery))
        yield free


def order(number: int) -> tuple[str, str, Any]:
    return "order.placed", f"order-{number}", {"number": number}


async def test_a_crash_at_any_boundary_loses_nothing_and_repeats_nothing(
    new_place: NewPlace, nurseries: asyncio.Queue[Nursery]
):
    """One order, killed at boundary n; a second process finishes it. For every n."""
    boundaries = await count_boundaries(new_place, nurseries, [7])
    assert boundaries > 3 * 10
    async with asyncio.TaskGroup() as cases:
        tasks = [cases.create_task(crash(new_place, nurseries, [7], [n])) for n in range(1, boundaries + 1)]
    # Group commit may put two transitions into one transaction that were in two when counted, hence "nearly".
    assert sum(task.result() for task in tasks) >= boundaries - 6


async def test_crashes_under_load_and_crashes_of_the_recovery_lose_nothing(
    new_place: NewPlace, nurseries: asyncio.Queue[Nursery]
):
    """Several orders at once; the process that should finish them is killed too, at a boundary of its own."""
    numbers = [1, 2, 3, 4, 5]
    boundaries = await count_boundaries(new_place, nurseries, numbers)
    chosen = range(2, boundaries + 1, max(1, boundaries // CASES_UNDER_LOAD))
    async with asyncio.TaskGroup() as cases:
        tasks = [cases.create_task(crash(new_place, nurseries, numbers, [n, 1 + n % 17])) for n in chosen]
    assert sum(task.result() for task in tasks) >= len(chosen)


async def count_boundaries(new_place: NewPlace, nurseries: asyncio.Queue[Nursery], numbers: list[int]) -> int:
    place = await new_place()
    nursery = await nurseries.get()
    code, said = await nursery.carry_out(place.plan(emit=[order(one) for one in numbers], done=2 * len(numbers)))
    nurseries.put_nowait(nursery)
    assert code == 0, said
    await check(place, numbers, kills=0)
    return int(next(line["boundaries"] for line in said if line["says"] == "stopped"))


async def crash(
    new_place: NewPlace, nurseries: asyncio.Queue[Nursery], numbers: list[int], boundaries: list[int]
) -> int:
    """Let one process after the other die at a boundary, then one finish. How many died, in fact."""
    place = await new_place()
    nursery = await nurseries.get()
    died: list[Any] = []
    unanswered = {f"order-{number}": order(number) for number in numbers}
    try:
        for crash_at in [*boundaries, None]:
            recorded = await recorded_steps(place)
            seen = len(Counter(place.counter).lines())
            # Whoever got no answer sends again; whoever got one may rely on it.
            plan = place.plan(emit=list(unanswered.values()), done=2 * len(numbers), crash_at=crash_at)
            code, said = await nursery.carry_out(plan)
            for line in said:
                if line["says"] == "accepted":
                    unanswered.pop(line["id"])
            died += [line for line in said if line["says"] == "at the boundary"]
            assert code == (KILLED if any(line["says"] == "at the boundary" for line in said) else 0), said
            repeated = recorded & {(event, name) for event, name, _ in Counter(place.counter).lines()[seen:]}
            assert not repeated, "ran again although recorded"
        await check(place, numbers, kills=len(died))
    except AssertionError as error:
        error.add_note(f"killed at {boundaries}: {died}; the log ends:\n{nursery.child.log[-3000:]}")
        raise
    finally:
        nurseries.put_nowait(nursery)
    return len(died)


async def recorded_steps(place: Place) -> set[tuple[str, str]]:
    """(event of the order, step) of everything that is recorded as done."""
    return {
        (run.cause, f"price.{arguments[0]}" if name == "price" else name)
        for run, name, state, arguments in await place.steps(after_a_crash=True)
        if state == "done"
    }


async def check(place: Place, numbers: list[int], *, kills: int, stops: int = 0) -> None:
    """Each order is done once, by both agents, with the right outputs, and booked once.

    A body that a kill or a stop interrupted before its result was recorded runs again; nothing else does.
    """
    runs = await place.runs()
    assert {run.state for run in runs} == {"done"}
    assert Tally(run.agent for run in runs) == {"order": len(numbers), "ship": len(numbers)}
    outputs = {(run.agent, run.cause): run.output for run in runs}
    for number in numbers:
        ordered, shipped = expected(number)
        assert {**outputs["order", f"order-{number}"], "moment": None} == {**ordered, "moment": None}
        assert outputs["ship", f"order-{number}"] == shipped
    assert {run.attempts for run in runs} == {0}, "crashes are counted apart from failures"
    assert max(run.crashes for run in runs) <= kills
    assert {state for _, _, state, _ in await place.steps()} <= {"done", "fact"}
    booked = await place.query("select event, total from booked order by event")
    assert booked == sorted((f"order-{number}", expected(number)[0]["booked"]) for number in numbers)
    ran = Tally((event, name) for event, name, _ in Counter(place.counter).lines())
    for number in numbers:
        for name in STEPS:
            least = 2 if name == "flaky" else 1
            assert least <= ran[f"order-{number}", name] <= least + kills + stops, (name, ran)
    if place.dialect == "sqlite":  # on PostgreSQL a lease may outlive this look
        assert "alive" not in (await place.processes()).values()
