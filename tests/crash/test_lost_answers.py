"""A COMMIT whose answer never comes: it may have happened, it may not, or it may still happen later. Whichever it is,
nothing is lost and nothing is done twice. One case for each transaction of an order.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from crash.conftest import NewPlace
from crash.harness import WAITING_FOR_A_LOCK, ChildProcess, Nursery, Place, a_few_at_once
from crash.orders import boundaries_of_one_order, check, emit, order
from support.fault_proxy import FaultProxy
from wakeful.testing.postgres_server import PostgresServer
from wakeful.testing.waiting import until

NOTHING_UNDER_WAY = (
    "select 1 where not exists (select 1 from pg_stat_activity where datname = current_database() "
    "and state like 'idle in transaction%')"
)
LEAVING = {"ForgetRuns", "RetireProcess"}
Fault = Callable[[Place, FaultProxy, ChildProcess], Awaitable[None]]


async def cut_before(_place: Place, proxy: FaultProxy, child: ChildProcess) -> None:
    cut = proxy.cut(b"COMMIT")
    child.signal(signal.SIGCONT)
    await asyncio.wait_for(cut.done.wait(), 60)


async def cut_after(_place: Place, proxy: FaultProxy, child: ChildProcess) -> None:
    cut = proxy.cut(b"COMMIT", after=True)
    child.signal(signal.SIGCONT)
    await asyncio.wait_for(cut.done.wait(), 60)


async def arrives_late(place: Place, proxy: FaultProxy, child: ChildProcess) -> None:
    """It is held back until its sender has given up, connected anew, and waits for its own lost transaction; or until it
    has ended that session, where nothing of a run was under way.
    """
    proxy.hold(b"COMMIT")
    child.signal(signal.SIGCONT)
    await until(lambda: "unavailable" in child.log or child.said("unavailable"))
    await until(lambda: place.query(f"{WAITING_FOR_A_LOCK} union all {NOTHING_UNDER_WAY}"))
    await proxy.pass_through()


async def never_arrives(_place: Place, proxy: FaultProxy, child: ChildProcess) -> None:
    """The server does not know that nobody is there any more, until it has waited long enough."""
    proxy.hold(b"COMMIT")
    child.signal(signal.SIGCONT)


faults = pytest.mark.parametrize("fault", [cut_before, cut_after, arrives_late, never_arrives])


@faults
async def test_the_answer_to_any_commit_is_lost_postgres(
    new_postgres_place: NewPlace, postgres_server: PostgresServer, nursery: Nursery, fault: Fault
):
    boundaries = await boundaries_of_one_order(new_postgres_place, nursery)
    transactions = sum(point == "within" for _, point in boundaries)
    assert transactions > 5
    lost = await a_few_at_once(
        lose(new_postgres_place, postgres_server, nursery, fault, stop_in=number)
        for number in range(2, transactions + 2)  # the first one enters the process
    )
    # Group commit does not always put the same transitions together, so there may be fewer this time: "nearly" all.
    assert sum(lost) >= transactions - 3


@faults
async def test_the_answer_to_a_claim_is_lost_postgres(
    new_postgres_place: NewPlace, postgres_server: PostgresServer, nursery: Nursery, fault: Fault
):
    """Nobody knows of the run that it claimed, so it must be given back, or nobody would ever run it."""

    async def with_a_ready_run() -> Place:
        place = await new_postgres_place()
        await emit(place, *order(7))
        return place

    assert await lose(with_a_ready_run, postgres_server, nursery, fault, stop_on=("within", ["ClaimRuns"]), emit=[])


async def lose(new_place: NewPlace, server: PostgresServer, nursery: Nursery, fault: Fault, **more: Any) -> bool:
    """Let a process come to a COMMIT, and let that fail. False if it had done everything before, and only leaves."""
    place = await new_place()
    idle_limit = 1.0 if fault is never_arrives else 60.0
    plan = place.plan(
        **{"emit": [order(7)], "done": 2, "lease": 60.0, "idle_limit": idle_limit, "command_timeout": 0.5, **more}
    )
    async with FaultProxy("127.0.0.1", server.port) as proxy:
        plan.store = server.dsn(place.url.rpartition("/")[2], port=proxy.port)
        async with nursery.child(plan) as child:
            at_work = await child.comes_to_its_boundary() and LEAVING.isdisjoint(child.where["requests"])
            if at_work:
                await fault(place, proxy, child)
            elif child.where:
                child.signal(signal.SIGCONT)
            assert await child.ends() == 0
            await check(place, [7], kills=0)
    await place.leave()
    return at_work
