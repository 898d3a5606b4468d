"""A worker that was stopped, or cut off, past its lease: another one finishes its runs, and when it comes back it can
commit nothing. It notices, joins again under a new identity and works on.
"""

from __future__ import annotations

import signal
from pathlib import Path

from crash.children.workload import Counter
from crash.conftest import NewPlace
from crash.harness import Nursery, Place, a_few_at_once
from crash.orders import boundaries_of_one_order, check, emit, order
from wakeful.testing.waiting import until


async def test_a_worker_stopped_past_its_lease_commits_nothing_and_works_on(
    place: Place, nursery: Nursery, tmp_path: Path
):
    gate = tmp_path / "gate"
    async with nursery.child(place.plan(gate=str(gate), emit=[("gate.reached", "first", None)])) as zombie:
        before = (await zombie.says("working"))["process"]
        await zombie.says("at the gate")
        zombie.signal(signal.SIGSTOP)
        await zombie.is_stopped()

        async with nursery.child(place.plan(done=1)) as other:
            assert await other.ends() == 0
        (run,) = await place.runs()
        assert (run.state, run.output, run.crashes) == ("done", "before held after", 1)
        finished = await place.everything(but=("wakeful_process",))

        gate.touch()  # so that the zombie's step finishes too
        zombie.signal(signal.SIGCONT)
        await until(lambda: "joined again under a new identity" in zombie.log)
        assert "declared this one dead" in zombie.log
        assert await place.everything(but=("wakeful_process",)) == finished
        processes = await place.processes()
        assert processes.pop(before) == "dead"
        assert sorted(processes.values()) == ["alive", "stopped"]

        await emit(place, "gate.reached", "second")
        await until(lambda: has(place, done=2))
        await zombie.stops()
    ran = [(event, name) for event, name, pid in Counter(place.counter).lines() if pid == zombie.pid]
    again = ["before", "held", "through", "after"]
    assert [name for event, name in ran if event == "second"] == again
    assert "after" not in [name for event, name in ran if event == "first"]
    assert [one for one in await place.runs() if one.id == run.id] == [run]


async def has(place: Place, **states: int) -> bool:
    return await place.states() == states


async def test_a_worker_stopped_at_any_boundary_commits_nothing(new_place: NewPlace, nursery: Nursery):
    """Stopped at a boundary, wherever it owns a run. Another one finishes meanwhile."""
    boundaries = await boundaries_of_one_order(new_place, nursery)
    # Not within a transaction of SQLite: it holds the lock of the one writer, so nobody can go on meanwhile.
    sqlite = (await new_place()).dialect == "sqlite"
    points = ["before", "after"] if sqlite else ["before", "within"]
    chosen = [number for number, point in boundaries if point in points]
    assert len(chosen) > 10
    stopped = await a_few_at_once(stop_at(new_place, nursery, number) for number in chosen)
    # Group commit does not always put the same transitions together, so there may be fewer this time: "nearly" all.
    assert sum(stopped) >= len(chosen) - 6


async def stop_at(new_place: NewPlace, nursery: Nursery, boundary: int) -> bool:
    place = await new_place()
    async with nursery.child(place.plan(emit=[order(7)], done=2, stop_at=boundary)) as zombie:
        if not await zombie.comes_to_its_boundary():
            return False
        if place.is_locked():  # by the thread that renews its lease; nobody can go on then either
            return False
        orders = [] if zombie.said("accepted") else [order(7)]
        async with nursery.child(place.plan(emit=orders, done=2)) as other:
            assert await other.ends() == 0
        # Sending an event again is counted on the event, and that is nobody's claim.
        finished = await place.everything(but=("wakeful_process", "wakeful_event"))
        zombie.signal(signal.SIGCONT)
        assert await zombie.ends() == 0
        assert await place.everything(but=("wakeful_process", "wakeful_event")) == finished
        assert "ClaimLost:" not in zombie.log, "taken for a failure of the step"
        await check(place, [7], kills=1)
    await place.leave()
    return True
