"""Circuits in the store: one transition at a time, and nobody stays parked for one that is closed."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial

import asyncpg
import pytest

from support.locks import waiting_for_a_lock
from support.stores import APP, Member, OpenStore, accept, an_arrival, join, query, state_of
from wakeful.clock import SECOND, VirtualClock
from wakeful.execution.circuits import Circuit, failed, ticked, worked
from wakeful.model import Claim
from wakeful.stores.store import DatabaseStore
from wakeful.stores.verbs.circuits import ChangeCircuit, CircuitChange, CircuitChanged, StoredCircuit
from wakeful.stores.verbs.progress import LeaveRun

SETTINGS = Circuit(failures=1, rest="30s", interval="10s")


@pytest.fixture
async def member(store: DatabaseStore) -> Member:
    """One whose lease does not end when a test moves the clock."""
    return await join(store, "first", lease="365d")


async def change(member: Member, function: object) -> CircuitChanged:
    return await member.store.do(ChangeCircuit(APP, "stripe", SETTINGS.rest, function))  # type: ignore[arg-type]


async def fail(member: Member, run: int = 0) -> CircuitChanged:
    return await change(member, partial(failed, settings=SETTINGS, run=run, error="down"))


async def tick(member: Member) -> CircuitChanged:
    return await change(member, partial(ticked, settings=SETTINGS))


async def park(member: Member, claim: Claim) -> None:
    await member.store.do(LeaveRun(claim, "parked", "parked", reason="down", parked_for=(APP, "stripe")))


async def claims(member: Member, count: int) -> list[Claim]:
    await accept(member.store, *[an_arrival(str(number)) for number in range(count)])
    return sorted(await member.claim(), key=lambda claim: claim.seq)


class TestParking:
    async def test_a_parked_run_is_not_claimed_and_comes_back_oldest_first(self, member: Member, clock: VirtualClock):
        first, second, third = await claims(member, 3)
        await fail(member)
        for claim in (third, first, second):
            await park(member, claim)
        clock.move("30s")
        assert await member.claim() == []
        probing = await tick(member)
        assert (probing.circuit.state, probing.circuit.probe_seq, probing.came_back) == ("probing", first.seq, 1)
        (again,) = await member.claim()
        assert (again.id, again.attempts, again.crashes) == (first.id, 0, 0)
        await change(member, partial(worked, run=first.seq))
        assert (await tick(member)).came_back == 1
        assert (await tick(member)).came_back == 0  # not before its time
        clock.move("10s")
        assert (await tick(member)).came_back == 1

    async def test_the_attempt_is_noted_as_parked_with_what_it_waits_for(self, member: Member):
        (claim,) = await claims(member, 1)
        await fail(member)
        await park(member, claim)
        run = await state_of(member.store, claim.id)
        assert (run["state"], run["reason"], run["parked_for"]) == ("parked", "down", "stripe")
        assert [attempt["outcome"] for attempt in run["history"]] == ["parked"]

    async def test_a_repetition_after_a_lost_answer_changes_nothing(self, member: Member):
        (claim,) = await claims(member, 1)
        await fail(member)
        await park(member, claim)
        await park(member, claim)
        assert (await state_of(member.store, claim.id))["parked_for"] == "stripe"

    async def test_for_a_closed_circuit_is_refused_the_run_is_ready(self, member: Member):
        (claim,) = await claims(member, 1)
        await park(member, claim)
        assert (await state_of(member.store, claim.id))["state"] == "ready"

    async def test_does_not_count_for_the_deadline(self, member: Member, clock: VirtualClock):
        (claim,) = await claims(member, 1)
        await fail(member)
        await park(member, claim)
        clock.move("1h")
        await tick(member)
        (again,) = await member.claim()
        assert again.started_at == claim.started_at + 3600 * SECOND


class TestTransitions:
    async def test_every_one_sees_the_last(self, member: Member):
        """Many at once, in one transaction and in several: no failure is lost."""

        def count(circuit: StoredCircuit) -> CircuitChange:
            return CircuitChange(replace(circuit, failures=circuit.failures + 1))

        other = await join(member.store, "other")
        await asyncio.gather(*[change(one, count) for one in (member, other) for _ in range(20)])
        assert (await change(member, CircuitChange)).circuit.failures == 40

    async def test_a_probe_without_anybody_to_try_is_none(self, member: Member, clock: VirtualClock):
        await fail(member)
        clock.move("1m")
        probing = await tick(member)
        assert (probing.circuit.state, probing.changed) == ("open", False)


@pytest.mark.postgres
async def test_one_that_closes_waits_for_who_is_being_parked(stores: OpenStore, postgres_url: str):
    """Else it would find nobody parked, close, and leave that run behind."""
    one, two = await join(await stores(postgres_url), "one"), await join(await stores(postgres_url), "two")
    (claim,) = await claims(one, 1)
    await fail(one)
    await query(postgres_url, "update wakeful_circuit set state = 'recovering', next_at = 0")
    connection = await asyncpg.connect(postgres_url)
    try:
        async with connection.transaction():
            await connection.execute("select from wakeful_circuit where name = 'stripe' for key share")
            ticking = asyncio.ensure_future(tick(two))
            await waiting_for_a_lock(postgres_url, like="%wakeful_circuit%")
            await connection.execute(
                "update wakeful_run set state = 'parked', parked_for = 'stripe', owner = null where seq = $1", claim.seq
            )
    finally:
        await connection.close()
    changed = await ticking
    assert (changed.circuit.state, changed.came_back) == ("recovering", 1)
    assert (await state_of(one.store, claim.id))["state"] == "ready"
