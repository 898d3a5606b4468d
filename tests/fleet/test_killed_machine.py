"""One of two machines dies: what it had in flight goes on elsewhere at once, but for runs that were in the middle of a call: these
wait for the end of its lease.
"""

from __future__ import annotations

from crash.orders import check, order
from fleet.harness import Fleet
from wakeful.testing.children import KILLED
from wakeful.testing.waiting import until

HELD = ["a", "b", "c"]
CALLS = ["idempotent", "at_most_once"]
LONGER_THAN_THE_TEST = 3600.0


async def test_a_killed_machines_runs_go_on_elsewhere_before_its_lease_is_over(fleet: Fleet):
    numbers = list(range(20))
    async with fleet.worker(gate=fleet.gate("killed"), lease=LONGER_THAN_THE_TEST) as killed:
        await fleet.emit(*(("gate.reached", event, None) for event in HELD))
        await fleet.have_come("held", HELD)
        process = await fleet.identity(killed)
        async with fleet.worker() as other:
            await fleet.identity(other)
            await fleet.emit(*map(order, numbers))
            killed.kill()
            assert await killed.ends() == KILLED
            await fleet.come_to(done=len(HELD) + 2 * len(numbers))
            assert not await fleet.claimed_after(await fleet.lease_of(process))
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


async def test_runs_in_the_middle_of_a_call_wait_for_the_lease(fleet: Fleet):
    """The call may still be on its way when its process is dead. Runs beside it do not wait."""
    async with fleet.worker(gate=fleet.gate("killed"), lease=6.0) as killed:
        await fleet.emit(("gate.reached", "step", None), *((f"call.{kind}", kind, None) for kind in CALLS))
        await fleet.have_come("held", ["step"], killed.pid)
        await fleet.have_come("began", CALLS, killed.pid)
        process = await fleet.identity(killed)
        async with fleet.worker() as other:
            await fleet.identity(other)
            killed.kill()
            assert await killed.ends() == KILLED
            await fleet.come_to(done=2, held=1)
            lease = await fleet.lease_of(process)
            await other.stops()
    taken = dict(await fleet.place.query("select agent, claimed_at from wakeful_run where token > 1"))
    assert all(taken[f"call_{kind}"] >= lease for kind in CALLS), "its call may have been on its way"
    assert (await fleet.place.processes())[process] == "dead"
    assert {(run.cause, run.state, run.crashes) for run in await fleet.place.runs()} == {
        ("step", "done", 1),
        ("idempotent", "done", 1),
        ("at_most_once", "held", 1),
    }
    for kind in CALLS:
        assert len(fleet.operations(kind)) == 1, "the service could not know it again"


async def test_one_that_is_started_again_takes_over_its_own(fleet: Fleet):
    async with fleet.worker(gate=fleet.gate("killed"), lease=LONGER_THAN_THE_TEST) as killed:
        await fleet.emit(*(("gate.reached", event, None) for event in HELD))
        await fleet.have_come("held", HELD)
        await until(lambda: has_a_lock(fleet))
        killed.kill()
        assert await killed.ends() == KILLED
    async with fleet.worker() as again:
        await fleet.come_to(done=len(HELD))
        await again.stops()


async def test_one_whose_lease_connection_was_lost_is_there_again_at_once(fleet: Fleet):
    """Nobody else looks here, so that it is known who it is afterwards. Its next renewal is far away."""
    async with fleet.worker(gate=fleet.gate("only"), lease=LONGER_THAN_THE_TEST) as only:
        await fleet.emit(("gate.reached", "a", None))
        await fleet.have_come("held", ["a"])
        process = await fleet.identity(only)
        ((guard,),) = await until(lambda: has_a_lock(fleet))
        await fleet.place.query(
            "select pg_terminate_backend(pid) from pg_locks where locktype = 'advisory' and mode = 'ExclusiveLock'"
        )

        async def has_another() -> bool:
            return [(guard,)] != await has_a_lock(fleet) != []

        await until(has_another)
        (fleet.gate("only") / "a").touch()
        await fleet.come_to(done=1)
        assert await fleet.identity(only) == process
        await only.stops()
    assert [run.crashes for run in await fleet.place.runs()] == [0]


async def has_a_lock(fleet: Fleet) -> list[tuple[int]]:
    """The locks by which processes are seen to be connected, and that somebody has."""
    return await fleet.place.query(
        "select guard from wakeful_process where state = 'alive' and guard is not null and exists (select 1 from pg_locks "
        "where locktype = 'advisory' and granted and ((classid::bigint << 32) | objid::bigint) = guard)"
    )
