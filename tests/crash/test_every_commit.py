"""SIGKILL at every boundary of every commit: before it, within it when only the COMMIT is missing, and after it."""

from __future__ import annotations

import pytest

from crash.children.workload import Counter
from crash.conftest import NewPlace
from crash.harness import KILLED, Nursery, a_few_at_once
from crash.orders import check, order, recorded_steps

CASES_UNDER_LOAD = 12


async def test_a_crash_at_any_boundary_loses_nothing_and_repeats_nothing(new_place: NewPlace, nursery: Nursery):
    """One order, killed at boundary n; a second process finishes it. For every n."""
    boundaries = await count_boundaries(new_place, nursery, [7])
    assert boundaries > 3 * 10
    died = await a_few_at_once(crash(new_place, nursery, [7], [n]) for n in range(1, boundaries + 1))
    # Group commit may put two transitions into one transaction that were in two when counted, hence "nearly".
    assert sum(died) >= boundaries - 6


async def test_a_crash_before_and_after_single_statements_loses_nothing_postgres(
    new_postgres_place: NewPlace, nursery: Nursery
):
    """As in production, where a batch of checkpoints is one statement with its fence."""
    boundaries = await count_boundaries(new_postgres_place, nursery, [7], single=True)
    died = await a_few_at_once(
        crash(new_postgres_place, nursery, [7], [n], single=True) for n in range(1, boundaries + 1)
    )
    assert sum(died) >= boundaries - 6


async def test_crashes_under_load_and_crashes_of_the_recovery_lose_nothing(new_place: NewPlace, nursery: Nursery):
    """Several orders at once; the process that should finish them is killed too, at a boundary of its own."""
    numbers = [1, 2, 3, 4, 5]
    boundaries = await count_boundaries(new_place, nursery, numbers)
    chosen = range(2, boundaries + 1, max(1, boundaries // CASES_UNDER_LOAD))
    died = await a_few_at_once(crash(new_place, nursery, numbers, [n, 1 + n % 17]) for n in chosen)
    assert sum(died) >= len(chosen)


@pytest.mark.parametrize("point", ["before", "within", "after"])
async def test_a_crash_of_the_one_that_buries_another_leaves_no_run_waiting_for_a_lease_sqlite(
    new_sqlite_place: NewPlace, nursery: Nursery, point: str
):
    """Deaths are certain on one machine. So they are for the next one that looks, whatever became of the first."""
    place = await new_sqlite_place()
    plan = place.plan(emit=[order(7)], lease=3600.0, crash_on=("after", ["SaveSteps"]))
    code, said = await nursery.carry_out(plan)
    assert code == KILLED, said
    code, said = await nursery.carry_out(place.plan(lease=3600.0, crash_on=(point, ["BuryProcess"])))
    assert code == KILLED, said
    code, said = await nursery.carry_out(place.plan(done=2))
    assert code == 0, said
    await check(place, [7], kills=2)
    await place.leave()


async def count_boundaries(new_place: NewPlace, nursery: Nursery, numbers: list[int], *, single: bool = False) -> int:
    place = await new_place()
    plan = place.plan(emit=[order(one) for one in numbers], done=2 * len(numbers), single=single)
    code, said = await nursery.carry_out(plan)
    assert code == 0, said
    await check(place, numbers, kills=0)
    await place.leave()
    return int(next(line["boundaries"] for line in said if line["says"] == "stopped"))


async def crash(
    new_place: NewPlace, nursery: Nursery, numbers: list[int], boundaries: list[int], *, single: bool = False
) -> int:
    """Let one process after the other die at a boundary, then one finish. How many died, in fact."""
    place = await new_place()
    died = 0
    unanswered = {f"order-{number}": order(number) for number in numbers}
    for crash_at in [*boundaries, None]:
        recorded, seen = await recorded_steps(place), len(Counter(place.counter).lines())
        # Whoever got no answer sends again; whoever got one may rely on it.
        plan = place.plan(emit=list(unanswered.values()), done=2 * len(numbers), crash_at=crash_at, single=single)
        async with nursery.child(plan) as child:
            assert await child.ends() == (KILLED if child.where else 0)
            died += bool(child.where)
            for line in child.said("accepted"):
                unanswered.pop(line["id"])
            repeated = recorded & {(event, name) for event, name, _ in Counter(place.counter).lines()[seen:]}
            assert not repeated, "ran again although recorded"
            if crash_at is None:
                await check(place, numbers, kills=died)
    await place.leave()
    return died
