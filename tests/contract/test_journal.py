"""Group commit: everything that waits goes into one transaction, and each caller gets its own answer."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import apsw
import pytest

from support.stores import Member, OpenStore, a_step, accept, an_arrival, count, join, reader, state_of
from wakeful.errors import ClaimLost, StoreUnavailable
from wakeful.settings import sqlite_path
from wakeful.stores.opening import open_database
from wakeful.stores.request import Ready
from wakeful.stores.store import DatabaseStore
from wakeful.stores.verbs.accept import AcceptEvents


async def test_one_caller_alone_is_one_transaction(store: DatabaseStore):
    for number in range(3):
        before = store.journal.transactions
        await accept(store, an_arrival(str(number)))
        assert store.journal.transactions == before + 1


async def test_many_callers_at_once_share_few_transactions(store: DatabaseStore, store_url: str):
    before = store.journal.transactions, store.journal.transitions
    await asyncio.gather(*(accept(store, an_arrival(str(number))) for number in range(400)))
    assert store.journal.transitions == before[1] + 400
    assert store.journal.transactions - before[0] <= 8
    assert await count(store_url, "wakeful_run") == 400


async def test_steps_of_many_runs_share_few_transactions(member: Member):
    await accept(member.store, *(an_arrival(str(number)) for number in range(64)))
    claims = await member.claim(most=64)
    before = member.store.journal.transactions
    await asyncio.gather(*(member.save(claim, a_step()) for claim in claims))
    assert member.store.journal.transactions - before <= 8


async def test_different_transitions_share_a_transaction_and_each_has_its_answer(member: Member):
    await accept(member.store, *(an_arrival(str(number)) for number in range(3)))
    first, second, third = await member.claim()
    stale = await _stale_claim(member)
    before = member.store.journal.transactions
    saved, finished, left, accepted, lost, claimed = await asyncio.gather(
        member.save(first, a_step()),
        member.finish(second),
        member.leave(third),
        accept(member.store, an_arrival("new")),
        member.finish(stale),
        member.claim(),
        return_exceptions=True,
    )
    assert member.store.journal.transactions == before + 1
    assert (saved, finished, left) == (None, None, None)
    assert isinstance(accepted, list)
    assert isinstance(lost, ClaimLost)
    assert isinstance(claimed, list)
    # The claim comes last in the transaction: it sees what was given back and what was accepted in it.
    assert {claim.id for claim in claimed} == {third.id, *accepted[0].runs}


async def _stale_claim(member: Member) -> Any:
    await accept(member.store, an_arrival("stale"))
    stale = await member.claim_one()
    await member.leave(stale)
    await member.claim_one()
    return stale


async def test_one_bad_value_among_many_fails_alone(store: DatabaseStore, store_url: str):
    arrivals = [an_arrival(str(number)) for number in range(50)]
    arrivals[17].state = "nonsense"  # type: ignore[assignment]
    answers = await asyncio.gather(*(accept(store, arrival) for arrival in arrivals), return_exceptions=True)
    assert [number for number, answer in enumerate(answers) if isinstance(answer, BaseException)] == [17]
    assert await count(store_url, "wakeful_run") == 49


async def test_a_caller_who_gave_up_does_not_disturb_the_others(store: DatabaseStore):
    given_up = asyncio.ensure_future(accept(store, an_arrival("given up")))
    others = [asyncio.ensure_future(accept(store, an_arrival(str(number)))) for number in range(3)]
    await asyncio.sleep(0)
    given_up.cancel()
    assert [receipts[0].status for receipts in await asyncio.gather(*others)] == ["accepted"] * 3


async def test_it_says_which_agents_have_something_to_do(store: DatabaseStore):
    heard: list[Ready] = []
    store.hear(heard.append)
    await accept(store, an_arrival(agents=("bill", "ship")))
    assert set(map(repr, heard)) == {repr(Ready("app", frozenset({"bill", "ship"})))}
    heard.clear()
    await accept(store, an_arrival("2", agents=(), state="unmatched"))
    assert heard == []


async def test_what_was_handed_in_is_finished_before_it_closes(store_url: str, clock):
    store = DatabaseStore(open_database(store_url, clock))
    await store.open(migrate=store.dialect == "sqlite")
    pending = [asyncio.ensure_future(accept(store, an_arrival(str(number)))) for number in range(5)]
    await asyncio.sleep(0)
    await store.close()
    assert [receipts[0].status for receipts in await asyncio.gather(*pending)] == ["accepted"] * 5


async def test_a_closed_store_is_unavailable(store_url: str, clock):
    store = DatabaseStore(open_database(store_url, clock))
    await store.open(migrate=store.dialect == "sqlite")
    member = await join(store)
    resting = asyncio.ensure_future(store.do(member.wanting(rests=True)))
    await asyncio.sleep(0)
    await store.close()
    with pytest.raises(StoreUnavailable):
        await accept(store, an_arrival())
    with pytest.raises(asyncio.CancelledError):
        await resting


async def test_a_probe_hears_of_every_commit_boundary(stores: OpenStore, store_url: str):
    heard: list[tuple[str, list[str]]] = []

    def probe(where: str, requests: Sequence[Any]) -> None:
        heard.append((where, [type(request).__name__ for request in requests]))

    store = await stores(store_url, probe=probe)
    await accept(store, an_arrival())
    assert heard == [("before", ["AcceptEvents"]), ("within", ["AcceptEvents"]), ("after", ["AcceptEvents"])]


class TestSqliteUnavailable:
    async def test_a_write_lock_held_by_another_for_too_long_is_told_to_the_callers(self, sqlite_url: str, clock):
        from wakeful.stores.sqlite import SqliteBackend

        path = sqlite_path(sqlite_url)
        assert path is not None
        store = DatabaseStore(SqliteBackend(path, clock, busy_timeout=1))
        await store.open(migrate=True)
        try:
            other = apsw.Connection(str(path))
            other.execute("begin immediate")
            answers = await asyncio.gather(
                *(accept(store, an_arrival(str(number))) for number in range(3)), return_exceptions=True
            )
            assert [type(answer) for answer in answers] == [StoreUnavailable] * 3
            assert "write lock" in str(answers[0])
            other.execute("rollback")
            other.close()
            assert (await accept(store, an_arrival("1")))[0].status == "accepted"
        finally:
            await store.close()

    async def test_whoever_comes_while_it_waits_for_the_lock_does_not_wait_for_it_again(self, sqlite_url: str, clock):
        from wakeful.stores.sqlite import SqliteBackend

        path = sqlite_path(sqlite_url)
        assert path is not None
        tried: list[list[str]] = []

        def probe(where: str, requests: Sequence[Any]) -> None:
            if where == "before":
                tried.append([type(request).__name__ for request in requests])
                coming.set()

        coming = asyncio.Event()
        store = DatabaseStore(SqliteBackend(path, clock, busy_timeout=300), probe=probe)
        await store.open(migrate=True)
        other = apsw.Connection(str(path))
        try:
            other.execute("begin immediate")
            first = asyncio.create_task(accept(store, an_arrival("1")))
            await coming.wait()
            answers = await asyncio.gather(first, accept(store, an_arrival("2")), return_exceptions=True)
            assert [isinstance(one, StoreUnavailable) and one.locked for one in answers] == [True, True]
            assert tried == [["AcceptEvents"]]
            other.execute("rollback")
            receipts = [(await accept(store, an_arrival(number)))[0] for number in ("1", "2")]
            assert [one.status for one in receipts] == ["accepted", "accepted"], "nothing was stored before"
        finally:
            other.close()
            await store.close()

    async def test_a_full_disk_is_told_and_goes_on_when_there_is_room(self, stores: OpenStore, sqlite_url: str):
        store = await stores(sqlite_url)
        member = await join(store)
        await accept(store, an_arrival())
        claim = await member.claim_one()
        database: Any = store.database
        pages = await database._job(lambda: database._connection.execute("pragma page_count").get)
        await database._job(lambda: database._connection.execute(f"pragma max_page_count = {pages}"))
        with pytest.raises(StoreUnavailable, match="full"):
            await accept(store, *(an_arrival(f"big {number}", data="x" * 10_000) for number in range(20)))
        assert (await state_of(store, claim.id))["state"] == "running"
        assert await reader(store).event("big 0") is None
        await database._job(lambda: database._connection.execute("pragma max_page_count = 1000000"))
        receipts = await accept(store, *(an_arrival(f"big {number}", data="x" * 10_000) for number in range(20)))
        assert {receipt.status for receipt in receipts} == {"accepted"}
        assert await store.database.fetch("count_runs") == [("ready", 20), ("running", 1)]


@pytest.mark.postgres
async def test_a_broken_connection_is_told_to_its_callers_and_the_next_transaction_connects_anew(
    stores: OpenStore, postgres_url: str
):
    import asyncpg

    store = await stores(postgres_url)
    await accept(store, an_arrival("1"))
    connection = await asyncpg.connect(postgres_url)
    try:
        await connection.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'wakeful' "
            "and datname = current_database()"
        )
    finally:
        await connection.close()
    for _ in range(20):  # the journal finds out by its next transaction
        try:
            (receipt,) = await accept(store, an_arrival("2"))
        except StoreUnavailable:
            continue
        break
    assert receipt.status in {"accepted", "duplicate"}
    assert (await accept(store, an_arrival("2")))[0].status == "duplicate"


async def test_a_request_with_no_arrivals_is_answered_with_none(store: DatabaseStore):
    assert await store.do(AcceptEvents("app", [])) == []
