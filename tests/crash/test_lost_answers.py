"""A COMMIT whose answer never comes: it may have happened, it may not, or it may still happen later. Whichever it is,
nothing is lost and nothing is done twice. One case for each transaction of an order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from crash.children.waiting import until
from crash.conftest import NewPlace
from crash.harness import WAITING_FOR_A_LOCK, Case, Nurseries, Place
from crash.orders import boundaries_of_one_order, check, emit, order
from support.fault_proxy import FaultProxy
from wakeful.testing.postgres_server import PostgresServer

Fault = Callable[[Place, FaultProxy, Case], Awaitable[None]]


async def cut_before(_place: Place, proxy: FaultProxy, case: Case) -> None:
    cut = proxy.cut(b"COMMIT")
    case.resume()
    await asyncio.wait_for(cut.done.wait(), 60)


async def cut_after(_place: Place, proxy: FaultProxy, case: Case) -> None:
    cut = proxy.cut(b"COMMIT", after=True)
    case.resume()
    await asyncio.wait_for(cut.done.wait(), 60)


async def arrives_late(place: Place, proxy: FaultProxy, case: Case) -> None:
    """It is held back until its sender has given up, connected anew, and waits for its own lost transaction."""
    proxy.hold(b"COMMIT")
    case.resume()
    await until(lambda: "unavailable" in case.log or case.said("unavailable"))
    await until(lambda: place.query(WAITING_FOR_A_LOCK))
    await proxy.pass_through()


async def never_arrives(_place: Place, proxy: FaultProxy, case: Case) -> None:
    """The server does not know that nobody is there any more, until it has waited long enough."""
    proxy.hold(b"COMMIT")
    case.resume()


faults = pytest.mark.parametrize("fault", [cut_before, cut_after, arrives_late, never_arrives])


@faults
async def test_the_answer_to_any_commit_is_lost_postgres(
    new_postgres_place: NewPlace, postgres_server: PostgresServer, nurseries: Nurseries, fault: Fault
):
    boundaries = await boundaries_of_one_order(new_postgres_place, nurseries)
    transactions = sum(point == "within" for _, point in boundaries)
    assert transactions > 5
    async with asyncio.TaskGroup() as cases:
        tasks = [
            cases.create_task(lose(await new_postgres_place(), postgres_server, nurseries, fault, stop_in=number))
            for number in range(2, transactions + 2)  # the first one enters the process
        ]
    # Group commit does not always put the same transitions together, so there may be fewer this time: "nearly" all.
    assert sum(task.result() for task in tasks) >= transactions - 3


@faults
async def test_the_answer_to_a_claim_is_lost_postgres(
    new_postgres_place: NewPlace, postgres_server: PostgresServer, nurseries: Nurseries, fault: Fault
):
    """Nobody knows of the run that it claimed, so it must be given back, or nobody would ever run it."""
    place = await new_postgres_place()
    await emit(place, *order(7))
    assert await lose(place, postgres_server, nurseries, fault, stop_on=("within", ["ClaimRuns"]), emit=[])


async def lose(place: Place, server: PostgresServer, nurseries: Nurseries, fault: Fault, **more: Any) -> bool:
    """Let a process come to a COMMIT, and let that fail. False if it had done everything before, and only leaves."""
    idle_limit = 1.0 if fault is never_arrives else 60.0
    plan = place.plan(
        **{"emit": [order(7)], "done": 2, "lease": 60.0, "idle_limit": idle_limit, "command_timeout": 0.5, **more}
    )
    async with nurseries.some() as (nursery,), FaultProxy("127.0.0.1", server.port) as proxy:
        plan.store = server.dsn(place.url.rpartition("/")[2], port=proxy.port)
        case = await nursery.start(plan)
        try:
            at_work = await case.is_stopped() and "RetireProcess" not in case.where["requests"]
            if at_work:
                await fault(place, proxy, case)
            elif case.where:
                case.resume()
            code, said = await case.ends()
            assert code == 0, said
            await check(place, [7], kills=0)
            return at_work
        except (AssertionError, TimeoutError) as error:
            error.add_note(f"lost at {case.where}; the log ends:\n{case.log[-3000:]}")
            raise
