"""SIGKILL at every boundary of runs that share a business key, and a count of what was done outside of every process."""

from __future__ import annotations

import asyncio
import signal
from typing import Any

import pytest

from crash.children.workload import Counter
from crash.conftest import NewPlace
from crash.harness import KILLED, Nursery, Place, a_few_at_once
from support.fault_proxy import FaultProxy
from wakeful.testing.postgres_server import PostgresServer

RUNS = ("a", "b", "c")


def events(safety: str) -> list[tuple[str, str, Any]]:
    return [(f"once.{safety}", name, None) for name in RUNS]


@pytest.mark.parametrize("safety", ["idempotent", "at_most_once"])
async def test_a_crash_between_the_key_and_its_confirmation_does_nothing_twice(
    new_place: NewPlace, nursery: Nursery, safety: str
):
    place = await new_place()
    code, said = await nursery.carry_out(place.plan(emit=events(safety), done=3, say_boundaries=True))
    assert code == 0, said
    passed = [line for line in said if line["says"] == "passed"]
    kinds = {kind for line in passed for kind in line["requests"]}
    assert {"OpenOnce", "SaveOnce", "CommitRun", "CloseRun"} <= kinds
    first = min(line["number"] for line in passed if "OpenOnce" in line["requests"])
    last = max(line["number"] for line in passed if "CloseRun" in line["requests"])
    await check(place, safety, kills=0)
    await place.leave()
    await a_few_at_once(crash(new_place, nursery, safety, number) for number in range(first, last + 1))


async def crash(new_place: NewPlace, nursery: Nursery, safety: str, number: int) -> None:
    """A process dies at a boundary, and another takes over. Where a person must say what became of an effect, the others wait."""
    place = await new_place()
    for boundary in ({"crash_at": number}, {}):
        done = 3 if safety == "idempotent" else 1
        async with nursery.child(place.plan(emit=events(safety), done=done, **boundary)) as child:
            assert await child.ends() == (KILLED if child.where else 0)
    await check(place, safety, kills=1)
    await place.leave()


async def check(place: Place, safety: str, *, kills: int) -> None:
    lines = Counter(place.counter).lines()
    for key in ("acted", "staged"):
        calls = [operation for event, operation, _ in lines if event == key]
        assert len(set(calls)) <= 1, "one operation, whichever run did it"
        assert len(calls) <= (1 + kills if safety == "idempotent" else 1), "done twice"
    holders = await place.query("select key, count(*) from wakeful_operation_key where effect_id <> '' group by key")
    assert all(count == 1 for _, count in holders)
    if safety == "idempotent" or not kills:
        runs = await place.runs()
        assert [run.state for run in runs] == ["done"] * 3
        assert [run.output for run in runs] == ["done"] * 3
        states = await place.query("select state, count(*) from wakeful_effect group by state")
        assert states == [("confirmed", 6)]


async def test_a_crash_while_events_of_one_key_are_accepted_leaves_one_run(new_place: NewPlace, nursery: Nursery):
    sent = [("joined.idempotent", name, {"key": "INC-7"}) for name in RUNS]
    place = await new_place()
    code, said = await nursery.carry_out(place.plan(emit=sent, done=1, say_boundaries=True))
    assert code == 0, said
    passed = [line for line in said if line["says"] == "passed"]
    numbers = [line["number"] for line in passed if "AcceptEvents" in line["requests"]]
    await place.leave()

    async def one(number: int) -> None:
        place = await new_place()
        for boundary in ({"crash_at": number}, {}):
            async with nursery.child(place.plan(emit=sent, done=1, **boundary)) as child:
                assert await child.ends() == (KILLED if child.where else 0)
        assert [run.state for run in await place.runs()] == ["done"]
        admissions = await place.query(
            "select state, count(distinct run_id), count(*) from wakeful_admission group by state"
        )
        assert sorted(admissions) == [("joined", 1, 2), ("started", 1, 1)]
        await place.leave()

    await a_few_at_once(one(number) for number in range(min(numbers), max(numbers) + 1))


async def test_two_processes_at_once(new_place: NewPlace, nursery: Nursery):
    sent = [("once.at_most_once", str(number), None) for number in range(24)]
    place = await new_place()
    # Neither dies. A lease of the usual second would end in a process that a busy machine does not let run for so long, and a
    # person would have to say what became of its effect.
    how: dict[str, Any] = {"done": 24, "in_flight": 8, "lease": 60.0}
    async with nursery.child(place.plan(emit=sent, **how)) as one, nursery.child(place.plan(**how)) as two:
        assert await one.ends() == 0
        assert await two.ends() == 0
    await check(place, "at_most_once", kills=1)
    assert [run.output for run in await place.runs()] == ["done"] * 24
    assert sorted(event for event, _, _ in Counter(place.counter).lines()) == ["acted", "staged"]
    await place.leave()


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("request_kind", ["OpenOnce", "SaveOnce"])
async def test_the_answer_to_a_commit_is_lost(
    new_postgres_place: NewPlace, postgres_server: PostgresServer, nursery: Nursery, request_kind: str, after: bool
):
    """The network goes just when the key is taken, or the effect that has it is confirmed: it is found out which of it happened."""
    place = await new_postgres_place()
    stop = {"stop_on": ("within", [request_kind]), "lease": 60.0, "idle_limit": 60.0}
    plan = place.plan(emit=events("at_most_once"), done=3, in_flight=1, **stop)
    async with FaultProxy("127.0.0.1", postgres_server.port) as proxy:
        plan.store = postgres_server.dsn(place.url.rpartition("/")[2], port=proxy.port)
        async with nursery.child(plan) as child:
            assert await child.comes_to_its_boundary()
            cut = proxy.cut(b"COMMIT", after=after)
            child.signal(signal.SIGCONT)
            await asyncio.wait_for(cut.done.wait(), 60)
            assert await child.ends() == 0
    await check(place, "at_most_once", kills=0)
    await place.leave()
