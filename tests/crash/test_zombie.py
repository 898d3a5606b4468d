"""A worker that was stopped, or cut off, past its lease: another one finishes its runs, and when it comes back it can
commit nothing. It notices, joins again under a new identity and works on.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from crash.children.workload import SOURCE, build, Counter
from crash.conftest import NewPlace
from crash.harness import WAITING_FOR_A_LOCK, Nursery, Place, state_of, until, worker
from crash.test_every_commit import check, order
from support.fault_proxy import FaultProxy
from wakeful.testing.postgres_server import PostgresServer

AT_ONCE = 3


async def emit(place: Place, kind: str, identifier: str, data: Any = None) -> None:
    app = build(place.url, Counter(place.counter))
    async with app.running(worker=False):
        await app.emit(kind, data, id=identifier, source=SOURCE)


async def test_a_worker_stopped_past_its_lease_commits_nothing_and_works_on(place: Place, tmp_path: Path):
    gate = tmp_path / "gate"
    async with worker(place.plan(gate=str(gate), emit=[("gate.reached", "first", None)]), tmp_path / "zombie.log") as zombie:
        before = (await zombie.says("working"))["process"]
        await zombie.says("at the gate")
        zombie.signal(signal.SIGSTOP)
        await zombie.is_stopped()

        async with worker(place.plan(done=1), tmp_path / "other.log") as other:
            assert await other.ends() == 0
        (run,) = await place.runs()
        assert (run.state, run.output, run.crashes) == ("done", "before held after", 1)
        finished = await place.everything(but=("wakeful_process",))

        gate.touch()  # so that the zombie's step finishes too
        zombie.signal(signal.SIGCONT)
        await until(lambda: "joined again under a new identity" in zombie.log)
        assert "declared dead by others" in zombie.log
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


@pytest.fixture
async def pairs(tmp_path: Path) -> AsyncIterator[asyncio.Queue[tuple[Nursery, Nursery]]]:
    free: asyncio.Queue[tuple[Nursery, Nursery]] = asyncio.Queue()
    async with AsyncExitStack() as stack:
        for number in range(AT_ONCE):
            zombie = await stack.enter_async_context(Nursery(tmp_path / f"zombie-{number}.log"))
            other = await stack.enter_async_context(Nursery(tmp_path / f"other-{number}.log"))
            free.put_nowait((zombie, other))
        yield free


Pairs = asyncio.Queue[tuple[Nursery, Nursery]]


async def test_a_worker_stopped_at_any_boundary_commits_nothing(new_place: NewPlace, pairs: Pairs):
    """Stopped right before a commit, or right after one, wherever it owns a run. Another one finishes meanwhile."""
    boundaries = await boundaries_with_a_run(new_place, pairs)
    within = [] if (await new_place()).dialect == "sqlite" else ["within"]  # SQLite: it holds the lock of the one writer
    chosen = [number for number, point in boundaries if point in ["before", "after", *within]]
    assert len(chosen) > 10
    async with asyncio.TaskGroup() as cases:
        for number in chosen:
            cases.create_task(stop_at(new_place, pairs, number))


async def boundaries_with_a_run(new_place: NewPlace, pairs: Pairs) -> list[tuple[int, str]]:
    """The boundaries from the acceptance and claim of the order on, until both runs are done."""
    place = await new_place()
    pair = await pairs.get()
    code, said = await pair[0].carry_out(place.plan(emit=[order(7)], done=2, say_boundaries=True))
    pairs.put_nowait(pair)
    assert code == 0
    passed = [line for line in said if line["says"] == "passed"]
    first = next(line["number"] for line in passed if "AcceptEvents" in line["requests"])
    last = max(line["number"] for line in passed if "FinishRun" in line["requests"])
    return [(line["number"], line["point"]) for line in passed if first <= line["number"] < last]


async def stop_at(new_place: NewPlace, pairs: Pairs, boundary: int) -> None:
    place = await new_place()
    pair = await pairs.get()
    zombie, other = pair
    where: Any = boundary
    try:
        said = len(zombie.child.lines)
        plan = place.plan(emit=[order(7)], done=2, stop_at=boundary, idle_limit=1.0)
        stopped = asyncio.create_task(zombie.carry_out(plan))
        await zombie.child.says("at the boundary", times=1 + count(zombie, said, "at the boundary"))
        where = zombie.child.said("at the boundary")[-1]
        await until(lambda: state_of(where["pid"]) == "T")
        unanswered = not count(zombie, 0, "accepted", since=said)
        code, lines = await other.carry_out(place.plan(emit=[order(7)] if unanswered else [], done=2, idle_limit=1.0))
        assert code == 0, lines
        finished = await place.everything(but=("wakeful_process", "wakeful_event"))
        os.kill(where["pid"], signal.SIGCONT)
        code, lines = await stopped
        assert code == 0, lines
        assert await place.everything(but=("wakeful_process", "wakeful_event")) == finished
        await check(place, [7], kills=1)
    except AssertionError as error:
        error.add_note(f"stopped at {where}; the zombie's log ends:\n{zombie.child.log[-3000:]}")
        raise
    finally:
        pairs.put_nowait(pair)


def count(nursery: Nursery, until_line: int, what: str, *, since: int = 0) -> int:
    lines = nursery.child.lines[since:] if since else nursery.child.lines[:until_line]
    return sum(line["says"] == what for line in lines)


async def test_a_commit_that_arrives_late_is_counted_once_postgres(
    new_postgres_place: NewPlace, postgres_server: PostgresServer, pairs: Pairs
):
    """The network holds a COMMIT back until its sender has given up, connected anew and gone on. Then it arrives."""
    boundaries = await boundaries_with_a_run(new_postgres_place, pairs)
    chosen = [number for number, point in boundaries if point == "within"]
    assert len(chosen) > 5
    async with asyncio.TaskGroup() as cases:
        for number in chosen:
            cases.create_task(hold_back(await new_postgres_place(), postgres_server, pairs, stop_at=number))


async def test_a_claim_whose_commit_arrives_late_is_given_back_postgres(
    new_postgres_place: NewPlace, postgres_server: PostgresServer, pairs: Pairs
):
    """Nobody knows of the run that it claimed, so nobody would ever run it."""
    place = await new_postgres_place()
    await emit(place, *order(7))
    await hold_back(place, postgres_server, pairs, stop_on=("within", ["ClaimRuns"]), emit=[])


async def hold_back(place: Place, server: PostgresServer, pairs: Pairs, **more: Any) -> None:
    pair = await pairs.get()
    nursery = pair[0]
    where: Any = more
    try:
        async with FaultProxy("127.0.0.1", server.port) as proxy:
            said, logged = len(nursery.child.lines), len(nursery.child.log)
            plan = place.plan(
                **{"emit": [order(7)], "done": 2, "lease": 60.0, "idle_limit": 60.0, "command_timeout": 0.5, **more}
            )
            plan.store = server.dsn(place.url.rpartition("/")[2], port=proxy.port)
            working = asyncio.create_task(nursery.carry_out(plan))
            await nursery.child.says("at the boundary", times=1 + count(nursery, said, "at the boundary"))
            where = nursery.child.said("at the boundary")[-1]
            await until(lambda: state_of(where["pid"]) == "T")
            proxy.hold(b"COMMIT")
            os.kill(where["pid"], signal.SIGCONT)
            await until(lambda: "unavailable" in nursery.child.log[logged:])
            await until(lambda: place.query(WAITING_FOR_A_LOCK))  # it waits for its own lost transaction
            await proxy.pass_through()
            code, lines = await working
        assert code == 0, lines
        await check(place, [7], kills=0)
    except AssertionError as error:
        error.add_note(f"held back at {where}; the log ends:\n{nursery.child.log[-3000:]}")
        raise
    finally:
        pairs.put_nowait(pair)
