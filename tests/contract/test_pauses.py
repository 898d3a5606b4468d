"""Pauses: once a pause is stored, nothing of the agent is claimed."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest

from support.locks import waiting_for_a_lock
from support.stores import AGENT, APP, Member, OpenStore, accept, an_arrival, join, query, reader
from wakeful.clock import SECOND, VirtualClock
from wakeful.stores.request import Actor
from wakeful.stores.store import DatabaseStore
from wakeful.stores.verbs.claim import ClaimRuns
from wakeful.stores.verbs.pauses import ChangePause, Paused
from wakeful.stores.verbs.processes import RegisterProcess


async def pause(store: DatabaseStore, agent: str = AGENT) -> Paused:
    return await store.do(ChangePause(APP, agent, paused=True, by=Actor("ada", "code"), note="look first"))


async def resume(store: DatabaseStore, agent: str = AGENT, *, rate: str | None = None) -> Paused:
    return await store.do(ChangePause(APP, agent, paused=False, rate=rate, by=Actor("ada", "code")))


async def arrive(store: DatabaseStore, count: int, *agents: str) -> None:
    await accept(store, *(an_arrival(str(number), agents=agents or (AGENT,)) for number in range(count)))


async def test_nothing_of_a_paused_agent_is_claimed(member: Member):
    await arrive(member.store, 1, "a", "b")
    assert await pause(member.store, "a") == Paused(paused=False, rate=None)
    claimed = await member.ask("a", "b")
    assert [claim.agent for claim in claimed.claims] == ["b"]
    assert claimed.next_due is None
    assert await resume(member.store, "a") == Paused(paused=True, rate=None)
    assert [claim.agent for claim in await member.claim("a", "b")] == ["a"]


async def test_all_of_an_app(member: Member):
    await arrive(member.store, 1, "a", "b")
    await accept(member.store, an_arrival(app="other"), app="other")
    await pause(member.store, "")
    assert await member.claim("a", "b") == []
    assert len(await member.claim(app="other")) == 1
    await resume(member.store, "")
    assert len(await member.claim("a", "b")) == 2


async def test_one_that_was_paused_by_name_stays_so(member: Member):
    await arrive(member.store, 1, "a", "b")
    await pause(member.store, "a")
    await pause(member.store, "")
    await resume(member.store, "")
    assert [claim.agent for claim in await member.claim("a", "b")] == ["b"]


async def test_runs_in_flight_finish(member: Member):
    await arrive(member.store, 1)
    claim = await member.claim_one()
    await pause(member.store)
    await member.finish(claim)
    assert await reader(member.store).counts() == {"done": 1}


async def test_one_that_must_go_alone_is_paused_too(member: Member):
    await arrive(member.store, 1)
    for _ in range(2):
        victim = await join(member.store)
        await victim.claim()
        await member.bury(victim)
    await pause(member.store)
    claimed = await member.ask()
    assert claimed.claims == []
    assert not claimed.solo_waiting


async def test_a_second_pause_keeps_the_first(member: Member, clock: VirtualClock):
    await pause(member.store)
    (first,) = await reader(member.store).pauses()
    clock.move("1h")
    assert await pause(member.store) == Paused(paused=True, rate=None)
    assert await reader(member.store).pauses() == [first]
    assert (first["app"], first["agent"], first["by"], first["note"]) == (APP, AGENT, "ada", "look first")


class TestComingBack:
    async def test_no_faster_than_the_rate_and_then_freely(self, store: DatabaseStore, clock: VirtualClock):
        member = await join(store, lease="1h")
        await arrive(member.store, 5)
        await pause(member.store)
        await resume(member.store, rate="2/10s")
        claimed = await member.ask()
        assert len(claimed.claims) == 2
        assert claimed.next_due == 10 * SECOND
        for claim in claimed.claims:
            await member.leave(claim)  # coming back is counted whenever it is claimed
        assert await member.claim() == []
        for _ in range(2):
            clock.move("10s")
            assert len(await member.claim()) == 2
            assert [one["rate"] for one in await reader(member.store).pauses()] == ["2/10s"]
        clock.move("10s")
        assert len(await member.claim()) == 1
        assert await reader(member.store).pauses() == []
        await accept(member.store, *(an_arrival(f"more {number}") for number in range(5)))
        assert len(await member.claim()) == 5

    async def test_all_agents_together(self, member: Member, clock: VirtualClock):
        await arrive(member.store, 3, "a", "b")
        await resume(member.store, "", rate="4/10s")
        assert len(await member.claim("a", "b")) == 4
        clock.move("10s")
        assert len(await member.claim("a")) + len(await member.claim("b")) == 2
        assert await reader(member.store).pauses() == []

    async def test_the_rate_stays_while_another_agent_has_something_left(self, store: DatabaseStore):
        await store.register(RegisterProcess("p", "host", 1, 3600 * SECOND, APP, ["a", "b"]))
        member = Member(store, "p")
        await arrive(store, 2, "a", "b")
        await resume(store, "", rate="2/10s")
        assert len(await member.claim("a")) == 2
        assert len(await reader(store).pauses()) == 1


@pytest.mark.postgres
class TestAgainstAClaim:
    async def test_a_pause_waits_for_a_claim_that_is_under_way(self, stores: OpenStore, postgres_url: str):
        """The claim has read that nothing is paused, and not committed yet: the pause returns after it, not before."""
        worker, person = await stores(postgres_url), await stores(postgres_url)
        member = await join(worker)
        await arrive(worker, 1)
        connection = await asyncpg.connect(postgres_url)
        try:
            async with connection.transaction():
                await connection.execute("lock table wakeful_run in share mode")  # the claim stops where it would write
                claiming = asyncio.ensure_future(member.claim())
                await waiting_for_a_lock(postgres_url, like="%update wakeful_run%")
                pausing = asyncio.ensure_future(pause(person))
                await waiting_for_a_lock(postgres_url, like="%pg_advisory_xact_lock(%")
                assert not pausing.done()
            assert len(await claiming) == 1
            await pausing
        finally:
            await connection.close()
        await accept(worker, an_arrival("later"))
        assert await member.claim() == []

    @pytest.mark.parametrize("agent", [AGENT, ""])
    async def test_a_claim_waits_for_a_pause_that_is_under_way_and_sees_it(
        self, stores: OpenStore, postgres_url: str, agent: str
    ):
        worker, person = await stores(postgres_url), await stores(postgres_url)
        member = await join(worker)
        await arrive(worker, 1)
        connection = await asyncpg.connect(postgres_url)
        try:
            async with connection.transaction():
                await connection.execute(
                    "lock table wakeful_pause in share mode"
                )  # the pause stops where it would write
                pausing = asyncio.ensure_future(pause(person, agent))
                await waiting_for_a_lock(postgres_url, like="%insert into wakeful_pause%")
                claiming = asyncio.ensure_future(member.claim())
                await waiting_for_a_lock(postgres_url, like="%pg_advisory_xact_lock_shared(%")
            await pausing
            assert await claiming == []
        finally:
            await connection.close()

    async def test_a_claim_and_a_pause_of_one_process(self, stores: OpenStore, postgres_url: str):
        """In one transaction the pause goes first; and it waits for itself no more than for others."""
        store = await stores(postgres_url)
        member = await join(store)
        await arrive(store, 1)
        request: ClaimRuns = member.wanting()
        results = await asyncio.gather(store.do(request), pause(store))
        assert results[0].claims == []
        assert await query(postgres_url, "select state from wakeful_run") == [("ready",)]
