"""One of two machines dies: what it had in flight goes on elsewhere once its lease is over, and not before."""

from __future__ import annotations

from crash.orders import check, order
from fleet.harness import Fleet
from wakeful.testing.children import KILLED

HELD = ["a", "b", "c"]


async def test_a_killed_machines_runs_go_on_elsewhere_after_its_lease(fleet: Fleet):
    numbers = list(range(20))
    async with fleet.worker(gate=fleet.gate("killed")) as killed:
        await fleet.emit(*(("gate.reached", event, None) for event in HELD))
        await fleet.have_come("held", HELD)
        process = await fleet.identity(killed)
        async with fleet.worker() as other:
            await fleet.identity(other)
            await fleet.emit(*map(order, numbers))
            killed.kill()
            assert await killed.ends() == KILLED
            await fleet.come_to(done=len(HELD) + 2 * len(numbers))
            assert await fleet.claimed_after(await fleet.lease_of(process))
            await other.stops()
            assert "Traceback" not in other.log
    assert (await fleet.place.processes())[process] == "dead"
    for event in HELD:
        assert fleet.who(event, "before") == [killed.pid], "it was recorded, and ran again"
        assert fleet.who(event, "held") == [killed.pid, other.pid]
        assert fleet.who(event, "after") == [other.pid]
    runs = [run for run in await fleet.place.runs() if run.agent == "wait"]
    assert {(run.state, run.output, run.crashes) for run in runs} == {("done", "before held after", 1)}
    history = await fleet.place.query(
        "select process, attempt.outcome from wakeful_attempt attempt join wakeful_run run on run.seq = run_seq "
        "where agent = 'wait'"
    )
    assert history == [(process, "crashed")] * len(HELD)
    await fleet.place.query("delete from wakeful_run where agent = 'wait'")
    await check(fleet.place, numbers, kills=1)
