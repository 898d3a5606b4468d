"""Old and new code of an agent that starts from the top when its code changes, in processes side by side: no run goes to and fro."""

from __future__ import annotations

from itertools import pairwise

from crash.children.workload import SOURCE
from fleet.children.turns import build_turns
from fleet.harness import TESTS, Fleet
from support.fault_proxy import FaultProxy
from wakeful.testing.children import KILLED
from wakeful.testing.postgres_server import PostgresServer
from wakeful.testing.waiting import until

OLDER = str(TESTS / "fleet" / "children" / "turns_older.py")
NEWER = str(TESTS / "fleet" / "children" / "turns_newer.py")


async def emit(fleet: Fleet, *events: str) -> None:
    app = build_turns(fleet.place.url, fleet.counter, fleet.open_gate, "none")
    async with app.running(worker=False):
        for event in events:
            await app.emit("turns.wanted", id=event, source=SOURCE)


def versions(fleet: Fleet, event: str) -> list[str]:
    """The code that ran an event, each time that it did something."""
    return [what.rpartition(".")[2] for one, what, _ in fleet.counter.lines() if one == event and "." in what]


async def is_dead(fleet: Fleet, process: str) -> bool:
    return bool((await fleet.place.processes())[process] == "dead")


async def test_no_run_goes_to_and_fro(fleet: Fleet):
    """1. An old worker has runs in flight; a new one comes, and both go on with what they have. 2. The new one is killed: the old
    one does not begin its runs anew. 3. It is back, and the old one is killed: its runs go over, once.
    """
    gate = {name: fleet.gate(name) for name in ("old", "new", "back")}
    first, second, third = ([f"{name}-{number}" for number in range(6)] for name in ("first", "second", "third"))
    async with fleet.worker(OLDER, gate=gate["old"], in_flight=len(first)) as old:
        await emit(fleet, *first)
        await fleet.have_come("turn", first, old.pid)
        async with fleet.worker(NEWER, gate=gate["new"]) as new:
            await fleet.identity(new)
            await emit(fleet, *second)  # the old one has no room
            await fleet.have_come("turn", second, new.pid)
            for event in first[:3]:
                (gate["old"] / event).touch()
            await fleet.come_to(done=3, running=3 + len(second))
            process = await fleet.identity(new)
            new.kill()
            assert await new.ends() == KILLED
        await until(lambda: is_dead(fleet, process))
        (gate["old"] / "probe").touch()
        await emit(fleet, "probe")  # the old one has room, and looks
        await fleet.come_to(done=4, running=3, ready=len(second))
        async with fleet.worker(NEWER, gate=gate["back"]) as back:
            await fleet.have_come("turn", second, back.pid)
            for event in second:
                (gate["back"] / event).touch()
            await fleet.come_to(done=4 + len(second), running=3)
            await emit(fleet, *third)
            await fleet.have_come("turn", third)
            old.kill()
            assert await old.ends() == KILLED
            for event in (*first, *third):
                (gate["back"] / event).touch()
            await fleet.come_to(done=1 + len(first) + len(second) + len(third))
            await back.stops()
            assert "Traceback" not in back.log
    for event in (*first, *second, *third):
        went = versions(fleet, event)
        changes = [pair for pair in pairwise(went) if pair[0] != pair[1]]
        assert changes in ([], [("1", "2")]), f"{event} went to and fro: {went}"
        assert len([what for one, what, _ in fleet.counter.lines() if one == event and "fetch" in what]) <= 2
    outputs = {run.cause: run.output for run in await fleet.place.runs()}
    assert {outputs[event] for event in first[:3]} == {"1, with what 1 fetched"}
    assert {outputs[event] for event in (*first[3:], *second)} == {"2, with what 2 fetched"}
    assert not [key for key, _, _ in await fleet.place.alarms() if key.startswith(("held/", "change/"))]


async def test_old_code_that_was_cut_off_does_not_take_its_runs_back(fleet: Fleet, postgres_server: PostgresServer):
    """1. An old worker has runs in flight, and is cut off. 2. After its lease no live worker has that code: new code takes them over.
    3. The old one is back while they wait: they stay where they are.
    """
    gate = {name: fleet.gate(name) for name in ("old", "new")}
    events = [f"cut-{number}" for number in range(4)]
    async with FaultProxy("127.0.0.1", postgres_server.port) as proxy:
        store = postgres_server.dsn(fleet.place.url.rpartition("/")[2], port=proxy.port)
        async with fleet.worker(OLDER, gate=gate["old"], store=store) as old:
            await emit(fleet, *events)
            await fleet.have_come("turn", events, old.pid)
            async with fleet.worker(NEWER, gate=gate["new"]) as new:
                await fleet.identity(new)
                proxy.blackhole()
                await fleet.have_come("turn", events, new.pid)
                await proxy.pass_through()
                await until(lambda: "joined again under a new identity" in old.log)
                for event in events:
                    (gate["old"] / event).touch()
                    (gate["new"] / event).touch()
                await fleet.come_to(done=len(events))
                await new.stops()
            await old.stops()
    assert "Traceback" not in old.log
    for event in events:
        went = versions(fleet, event)
        assert went == sorted(went), f"{event} went back: {went}"
        assert went.count("2") > went.count("1") > 0
    assert {run.output for run in await fleet.place.runs()} == {"2, with what 2 fetched"}
