"""A machine that cannot reach the database any more, while all its programs go on: from the end of its lease its runs are
others', and whatever it tries to store about them is refused. Where the server sees that the machine is gone, its runs are others'
at once, but for those in the middle of a call. When it is back it joins under a new identity.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from fleet.harness import Fleet
from fleet.namespaces import NEAR, Cable, why_not
from support.fault_proxy import FaultProxy
from wakeful.testing.children import ChildProcess
from wakeful.testing.postgres_server import PostgresServer
from wakeful.testing.waiting import until

STEPS = ["step-early", "step-late"]
CALLS = ["idempotent-early", "idempotent-late", "at_most_once-early", "at_most_once-late"]
EARLY = [event for event in (*STEPS, *CALLS) if event.endswith("early")]
LATE = [event for event in (*STEPS, *CALLS) if event.endswith("late")]


def event_of(name: str) -> tuple[str, str, Any]:
    kind = name.rpartition("-")[0]
    return ("gate.reached" if kind == "step" else f"call.{kind}"), name, None


@pytest.mark.parametrize("how", ["swallowed", "reset"])
async def test_a_partitioned_machine_commits_nothing_after_its_lease(
    fleet: Fleet, postgres_server: PostgresServer, how: str
):
    async with FaultProxy("127.0.0.1", postgres_server.port) as proxy:

        async def cut() -> None:
            if how == "swallowed":
                proxy.blackhole()
            else:
                proxy.refuse()
                proxy.reset()

        gate = fleet.gate("far")
        store = postgres_server.dsn(fleet.place.url.rpartition("/")[2], port=proxy.port)
        # Where it is seen at once: no test is so slow that its lease is over before.
        async with fleet.worker(gate=gate, store=store, lease=15.0 if how == "reset" else 4.0) as far:
            await partition(fleet, far, cut, proxy.pass_through, seen=how == "reset")


async def test_a_machine_whose_cable_was_pulled_commits_nothing_after_its_lease(
    fleet: Fleet, postgres_server: PostgresServer
):
    """The same between two hosts, where the kernels' own TCP does not know that nobody is there."""
    if (reason := why_not()) is not None:
        pytest.skip(reason)
    async with Cable() as cable:

        async def cut() -> None:
            cable.pull()

        async def heal() -> None:
            cable.plug()

        gate = fleet.gate("far")
        port = await cable.lead_to("127.0.0.1", postgres_server.port)
        address = postgres_server.dsn(fleet.place.url.rpartition("/")[2], port=port)
        store = address.replace("127.0.0.1", NEAR)
        async with fleet.worker(gate=gate, store=store, namespace=cable.far) as far:
            await partition(fleet, far, cut, heal)


async def partition(
    fleet: Fleet,
    far: ChildProcess,
    cut: Callable[[], Awaitable[None]],
    heal: Callable[[], Awaitable[None]],
    *,
    seen: bool = False,
) -> None:
    """`seen`: by the server, at once. 1. The far machine is in the middle of steps and calls. 2. It is cut off; some of them end, and cannot be stored.
    3. The near machine takes over after the lease, and ends all it may. 4. The far one comes to the end of the rest.
    5. It is connected again: nothing changes by that. 6. It works on.
    """
    gate = fleet.gate("far")
    await fleet.emit(*map(event_of, (*STEPS, *CALLS)))
    await fleet.have_come("held", STEPS, far.pid)
    await fleet.have_come("began", CALLS, far.pid)
    before = await fleet.identity(far)

    async with fleet.worker() as near:
        await fleet.identity(near)
        await cut()
        for event in EARLY:
            (gate / event).touch()
        await fleet.have_come("through", [event for event in STEPS if event in EARLY], far.pid)
        await fleet.have_come("reached", [event for event in CALLS if event in EARLY], far.pid)

        await fleet.come_to(done=4, held=2)
        assert (await fleet.place.processes())[before] == "dead"
        lease = await fleet.lease_of(before)
        taken = await fleet.place.query("select agent, claimed_at from wakeful_run where token > 1")
        assert all(claimed >= lease for agent, claimed in taken if agent.startswith("call_")), "it might still call"
        assert all((claimed >= lease) != seen for agent, claimed in taken if agent == "wait")
        finished = await fleet.place.everything(but=("wakeful_process",))

        for event in LATE:
            (gate / event).touch()
        await fleet.have_come("through", [event for event in STEPS if event in LATE], far.pid)
        await heal()
        await until(lambda: "joined again under a new identity" in far.log)
        assert "declared this one dead" in far.log
        assert await fleet.place.everything(but=("wakeful_process",)) == finished
        await near.stops()

    await fleet.emit(event_of("step-again"), event_of("idempotent-again"))
    (gate / "step-again").touch()
    (gate / "idempotent-again").touch()
    await fleet.come_to(done=6, held=2)
    after = await fleet.identity(far)
    assert after != before
    await far.stops()
    assert "Traceback" not in far.log

    for event in STEPS:
        assert fleet.who(event, "before") == [far.pid]
        assert fleet.who(event, "after") == [near.pid], "it went on with a run that was another's"
    for event in CALLS:
        assert len(fleet.operations(event)) == 1, "the service could not know it again"
    for kind in ("idempotent", "at_most_once"):
        early, late = f"{kind}-early", f"{kind}-late"
        again = [near.pid] if kind == "idempotent" else []
        assert fleet.who(early, "reached") == [far.pid, *again]
        assert fleet.who(late, "began") == [far.pid, *again]
        assert fleet.who(late, "reached") == again, "a call went on past the lease"
    outputs = {run.cause: (run.state, run.output, run.crashes) for run in await fleet.place.runs()}
    assert outputs["step-early"] == outputs["step-late"] == ("done", "before held after", 1)
    assert outputs["idempotent-early"] == outputs["idempotent-late"] == ("done", f"reached by {near.pid}", 1)
    assert outputs["at_most_once-early"] == outputs["at_most_once-late"] == ("held", None, 1)
    assert outputs["step-again"] == ("done", "before held after", 0)
    assert outputs["idempotent-again"] == ("done", f"reached by {far.pid}", 0)


async def test_a_partitioned_machine_undoes_nothing_twice_and_stores_nothing_of_it(
    fleet: Fleet, postgres_server: PostgresServer
):
    """A run that failed undoes what it did. Its machine is cut off in the middle of that, and another one goes on."""
    async with FaultProxy("127.0.0.1", postgres_server.port) as proxy:
        gate = fleet.gate("far")
        store = postgres_server.dsn(fleet.place.url.rpartition("/")[2], port=proxy.port)
        async with fleet.worker(gate=gate, store=store) as far:
            await fleet.emit(("saga.begun", "trip", None))
            await fleet.have_come("gives-back-room", ["trip"], far.pid)
            async with fleet.worker() as near:
                await fleet.identity(near)
                proxy.blackhole()
                (gate / "trip").touch()
                await fleet.have_come("gave-back-room", ["trip"], far.pid)
                await fleet.come_to(dead=1)
                finished = await fleet.place.everything(but=("wakeful_process",))
                await proxy.pass_through()
                await until(lambda: "joined again under a new identity" in far.log)
                assert await fleet.place.everything(but=("wakeful_process",)) == finished
                await near.stops()
            await far.stops()
    assert "Traceback" not in far.log
    assert fleet.who("trip", "took-seat") == fleet.who("trip", "took-room") == [far.pid]
    assert fleet.who("trip", "gave-back-room") == [far.pid, near.pid], (
        "called again, since nobody heard of the first call"
    )
    assert fleet.who("trip", "gave-back-seat") == [near.pid], "the latest first, and no further once it is cut off"
    assert len(fleet.operations("trip")) == 4, "the service knows each undo again"
    effects = await fleet.place.query("select action, state from wakeful_effect order by seq")
    assert sorted(effects) == [("take", "undone")] * 2 + [("undo take", "confirmed")] * 2
