"""Keys, gathering runs and claims of several processes: races on PostgreSQL, forced by holding a transaction open."""

from __future__ import annotations

import asyncio
from typing import Any

import asyncpg
import pytest

from support.locks import held_open, waiting_for_a_lock
from support.stores import APP, Member, OpenStore, accept, an_arrival, count, join, query, state_of
from wakeful.clock import SECOND
from wakeful.model import WENT_WELL, Arrival, Flow, RunOutcome, run_id
from wakeful.stores.request import Actor
from wakeful.stores.store import DatabaseStore
from wakeful.stores.verbs.accept import AcceptEvents
from wakeful.stores.verbs.cancel import CancelRun, FinishCancelled
from wakeful.stores.verbs.progress import FinishRun

ORDERED = Flow("k")
DEBOUNCED = Flow("", None, debounce=(5 * SECOND, 60 * SECOND))
BATCHED = Flow("", None, batch=(5, 5 * SECOND))


def arrival(identifier: str, flow: Flow = ORDERED) -> Arrival:
    made = an_arrival(identifier)
    made.admissions[0].flow = flow
    return made


def run_of(identifier: str) -> str:
    return run_id(APP, "agent", "/test", identifier)


async def due(store: DatabaseStore, url: str) -> list[str]:
    rows = await query(url, "select id from wakeful_run where state = 'ready' and due_at is not null order by seq")
    return [row[0] for row in rows]


class TestStopping:
    @pytest.mark.parametrize("started", [False, True])
    async def test_the_key_is_locked_before_the_run(self, stores: OpenStore, postgres_url: str, *, started: bool):
        """Whoever accepts a newer event has the key, and wants the run: two who take them in turn would wait in a circle."""
        member = await join(await stores(postgres_url), "first")
        await accept(member.store, arrival("1"))
        stops: Any = CancelRun(run_of("1"), by=Actor("alice", "code"))
        if started:
            (claim,) = await member.claim()
            await member.store.do(stops)
            stops = FinishCancelled(claim, APP, "cancelled by alice", RunOutcome("cancelled"))
        other = await asyncpg.connect(postgres_url)
        async with other.transaction():
            await other.fetch("select * from wakeful_key for update")
            stopping = member.store.journal.submit(stops)
            await waiting_for_a_lock(postgres_url)
            await other.fetch("select * from wakeful_run for update nowait")
        await stopping
        await other.close()
        assert (await state_of(member.store, run_of("1")))["state"] == "cancelled"


class TestOneAfterTheOther:
    async def test_only_the_first_of_a_key_can_be_claimed(self, member: Member):
        await accept(member.store, arrival("1"), arrival("2"), arrival("3"))
        (first,) = await member.claim()
        assert first.id == run_of("1")
        assert first.key == "k"
        assert await member.claim() == []
        await member.finish(first)
        (second,) = await member.claim()
        assert second.id == run_of("2")

    async def test_an_end_that_is_repeated_passes_the_key_on_once(self, member: Member, store_url: str):
        """As after a COMMIT whose answer was lost."""
        await accept(member.store, arrival("1"), arrival("2"), arrival("3"))
        (first,) = await member.claim()
        await member.finish(first)
        (second,) = await member.claim()
        await member.finish(first)
        assert await due(member.store, store_url) == []
        assert (await state_of(member.store, second.id))["state"] == "running"

    async def test_a_key_is_passed_on_in_the_transaction_that_claims(self, member: Member):
        await accept(member.store, arrival("1"), arrival("2"))
        (first,) = await member.claim()
        finished = member.store.journal.submit(FinishRun(first, "done", outcome=WENT_WELL))
        claimed = member.store.journal.submit(member.wanting())
        await finished
        assert [claim.id for claim in (await claimed).claims] == [run_of("2")]

    async def test_one_that_died_with_its_process_keeps_its_place(
        self, member: Member, stores: OpenStore, store_url: str
    ):
        await accept(member.store, arrival("1"), arrival("2"))
        await member.claim()
        other = await join(await stores(store_url))
        await other.bury(member)
        assert [claim.id for claim in await other.claim()] == [run_of("1")]

    async def test_a_duplicate_takes_no_second_place(self, member: Member, store_url: str):
        await accept(member.store, arrival("1"), arrival("1"))
        await accept(member.store, arrival("1"))
        assert await count(store_url, "wakeful_run") == 1
        assert (await query(store_url, "select place from wakeful_run"))[0][0] == 1


@pytest.mark.postgres
class TestWhoeverCommitsFirst:
    """Each with the other one's transaction held open."""

    @pytest.fixture
    async def pair(self, stores: OpenStore, postgres_url: str) -> tuple[Member, DatabaseStore]:
        return await join(await stores(postgres_url)), await stores(postgres_url)

    async def test_one_accepted_while_the_one_before_it_ends(
        self, pair: tuple[Member, DatabaseStore], postgres_url: str
    ):
        member, other = pair
        await accept(member.store, arrival("1"))
        (first,) = await member.claim()
        async with held_open(member.store, postgres_url, FinishRun(first, "done", outcome=WENT_WELL)):
            accepting = asyncio.create_task(accept(other, arrival("2")))
            await waiting_for_a_lock(postgres_url, like="%wakeful_key%")
        await accepting
        assert await due(other, postgres_url) == [run_of("2")]

    async def test_one_that_ends_while_another_is_accepted(self, pair: tuple[Member, DatabaseStore], postgres_url: str):
        member, other = pair
        await accept(member.store, arrival("1"))
        (first,) = await member.claim()
        async with held_open(other, postgres_url, AcceptEvents(APP, [arrival("2")])):
            finishing = asyncio.create_task(member.finish(first))
            await waiting_for_a_lock(postgres_url, like="%wakeful_key%")
        await finishing
        assert await due(other, postgres_url) == [run_of("2")]

    async def test_two_that_are_the_first_of_their_key(self, pair: tuple[Member, DatabaseStore], postgres_url: str):
        member, other = pair
        async with held_open(other, postgres_url, AcceptEvents(APP, [arrival("1")])):
            accepting = asyncio.create_task(accept(member.store, arrival("2")))
            await waiting_for_a_lock(postgres_url, like="%wakeful_key%")
        await accepting
        assert await due(other, postgres_url) == [run_of("1")]

    async def test_many_keys_in_any_order_never_wait_in_a_circle(
        self, pair: tuple[Member, DatabaseStore], postgres_url: str
    ):
        member, other = pair
        names = [f"k{number}" for number in range(30)]

        def request(prefix: str, keys: list[str]) -> AcceptEvents:
            return AcceptEvents(APP, [arrival(f"{prefix}{key}", Flow(key)) for key in keys])

        for turn in range(5):
            await asyncio.gather(
                member.store.do(request(f"a{turn}", names)), other.do(request(f"b{turn}", names[::-1]))
            )
        assert len(await due(other, postgres_url)) == len(names)
        rows = await query(postgres_url, "select deadlocks from pg_stat_database where datname = current_database()")
        assert rows[0][0] == 0

    @pytest.mark.parametrize("flow", [BATCHED, DEBOUNCED])
    async def test_an_event_that_comes_while_its_run_is_claimed_gets_another(
        self, pair: tuple[Member, DatabaseStore], postgres_url: str, clock: Any, flow: Flow
    ):
        member, other = pair
        await accept(member.store, arrival("1", flow))
        clock.move("5s")
        request = member.wanting()
        request.wanted = request.wants()
        async with held_open(member.store, postgres_url, request) as results:
            assert [claim.id for claim in results[0].claims] == [run_of("1")]
            accepting = asyncio.create_task(accept(other, arrival("2", flow)))
            await waiting_for_a_lock(postgres_url, like="%wakeful_run%")
        (receipt,) = await accepting
        assert receipt.runs == [run_of("2")]
        assert (await state_of(other, run_of("1")))["state"] == "running"

    async def test_a_claim_passes_over_a_run_that_an_event_just_joins(
        self, pair: tuple[Member, DatabaseStore], postgres_url: str, clock: Any
    ):
        member, other = pair
        await accept(member.store, arrival("1", BATCHED))
        clock.move("5s")
        async with held_open(other, postgres_url, AcceptEvents(APP, [arrival("2", BATCHED)])):
            assert await member.claim() == []
        (claim,) = await member.claim()
        assert claim.gathered == 2
        assert len(claim.events) == 2

    async def test_a_claim_passes_over_a_run_that_a_newer_event_just_replaces(
        self, pair: tuple[Member, DatabaseStore], postgres_url: str, clock: Any
    ):
        member, other = pair
        await accept(member.store, arrival("1", DEBOUNCED))
        clock.move("5s")
        async with held_open(other, postgres_url, AcceptEvents(APP, [arrival("2", DEBOUNCED)])):
            assert await member.claim() == []
        assert await member.claim() == []
        clock.move("5s")
        assert [claim.id for claim in await member.claim()] == [run_of("2")]

    async def test_of_two_events_that_come_together_one_joins_the_other(
        self, pair: tuple[Member, DatabaseStore], postgres_url: str
    ):
        member, other = pair
        async with held_open(other, postgres_url, AcceptEvents(APP, [arrival("1", BATCHED)])):
            accepting = asyncio.create_task(accept(member.store, arrival("2", BATCHED)))
            await waiting_for_a_lock(postgres_url, like="%wakeful_key%")
        (receipt,) = await accepting
        assert receipt.runs == [run_of("1")]

    async def test_one_that_is_claimed_while_it_is_replaced_is_asked_to_stop(
        self, pair: tuple[Member, DatabaseStore], postgres_url: str
    ):
        member, other = pair
        flow = Flow("k", overlap="replace")
        await accept(member.store, arrival("1", flow))
        request = member.wanting()
        request.wanted = request.wants()
        async with held_open(member.store, postgres_url, request):
            accepting = asyncio.create_task(accept(other, arrival("2", flow)))
            await waiting_for_a_lock(postgres_url, like="%wakeful_run%")
        await accepting
        rows = await query(postgres_url, "select id, cancel_note from wakeful_run where cancel_at is not null")
        assert [tuple(row) for row in rows] == [(run_of("1"), "event 2 took its place")]
        assert await due(other, postgres_url) == []
