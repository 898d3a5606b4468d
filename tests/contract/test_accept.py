"""accept: what is answered is stored, each identity once, and a request whole or not at all."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from support.stores import APP, OpenStore, accept, an_arrival, an_event, count, join, query, reader, state_of
from wakeful.clock import VirtualClock, to_datetime
from wakeful.errors import IdempotencyConflict
from wakeful.model import Decision, Receipt, run_id
from wakeful.stores.store import DatabaseStore
from wakeful.stores.user_transaction import accept_within
from wakeful.stores.verbs.accept import AcceptEvents

RUN = run_id(APP, "agent", "/test", "1")


async def test_a_new_event_becomes_a_ready_run(store: DatabaseStore):
    assert await accept(store, an_arrival()) == [Receipt("/test", "1", "accepted", [RUN])]
    run = await state_of(store, RUN)
    assert (run["state"], run["agent"], run["attempts"], run["crashes"]) == ("ready", "agent", 0, 0)
    assert run["event"]["id"] == "1"
    event = await reader(store).event("1")
    assert event is not None
    assert event["admissions"] == [{"agent": "agent", "state": "started", "run": RUN, "reason": None}]


async def test_an_event_for_two_agents_becomes_two_runs(store: DatabaseStore):
    (receipt,) = await accept(store, an_arrival(agents=("bill", "ship")))
    assert receipt.runs == [run_id(APP, "bill", "/test", "1"), run_id(APP, "ship", "/test", "1")]
    assert {(await state_of(store, run))["agent"] for run in receipt.runs} == {"bill", "ship"}


async def test_a_later_delivery_maps_onto_the_same_run(store: DatabaseStore, store_url: str):
    await accept(store, an_arrival())
    for _ in range(3):
        assert await accept(store, an_arrival()) == [Receipt("/test", "1", "duplicate", [RUN])]
    event = await reader(store).event("1")
    assert event is not None
    assert (event["state"], event["duplicates"], event["conflicts"]) == ("accepted", 3, [])
    assert await count(store_url, "wakeful_run") == 1


@pytest.mark.parametrize("ended", ["done", "dead", "denied", "cancelled"])
async def test_a_delivery_after_the_run_ended_maps_onto_it_and_starts_nothing(store: DatabaseStore, ended):
    await accept(store, an_arrival())
    member = await join(store)
    await member.finish(await member.claim_one(), ended)
    assert await accept(store, an_arrival()) == [Receipt("/test", "1", "duplicate", [RUN])]
    assert await member.claim() == []
    assert (await state_of(store, RUN))["state"] == ended


async def test_the_second_of_two_equal_ones_in_a_request_is_a_duplicate(store: DatabaseStore, store_url: str):
    receipts = await accept(store, an_arrival(), an_arrival("2"), an_arrival())
    assert [(receipt.id, receipt.status) for receipt in receipts] == [
        ("1", "accepted"),
        ("2", "accepted"),
        ("1", "duplicate"),
    ]
    assert receipts[0].runs == receipts[2].runs == [RUN]
    assert await count(store_url, "wakeful_run") == 2


async def test_equal_events_of_requests_in_one_transaction_make_one_run(store: DatabaseStore, store_url: str):
    before = store.journal.transactions
    answers = await asyncio.gather(*(accept(store, an_arrival()) for _ in range(10)))
    assert store.journal.transactions == before + 1
    assert sorted(receipt.status for (receipt,) in answers) == ["accepted"] + ["duplicate"] * 9
    assert {tuple(receipt.runs) for (receipt,) in answers} == {(RUN,)}
    assert await count(store_url, "wakeful_run") == 1


async def test_the_same_identity_with_other_content_is_a_recorded_conflict(store: DatabaseStore):
    await accept(store, an_arrival(data={"amount": 1}))
    (receipt,) = await accept(store, an_arrival(data={"amount": 2}))
    assert (receipt.status, receipt.conflict, receipt.runs) == ("duplicate", True, [RUN])
    await accept(store, an_arrival(data={"amount": 2}))
    event = await reader(store).event("1")
    assert event is not None
    assert event["envelope"]["data"] == {"amount": 1}
    assert [conflict["envelope"]["data"] for conflict in event["conflicts"]] == [{"amount": 2}]
    assert event["duplicates"] == 2


async def test_the_same_content_in_another_order_is_no_conflict(store: DatabaseStore):
    await accept(store, an_arrival(data={"amount": 1, "by": {"name": "a", "role": "b"}}))
    (receipt,) = await accept(store, an_arrival(data={"by": {"role": "b", "name": "a"}, "amount": 1}))
    assert (receipt.status, receipt.conflict) == ("duplicate", False)


async def test_many_deliveries_of_a_large_event_with_other_content_are_told_apart(store: DatabaseStore):
    await accept(store, an_arrival(data={"text": "x" * 200_000, "amount": 1}))
    same = an_arrival(data={"amount": 1, "text": "x" * 200_000})
    receipts = await accept(store, same, *(an_arrival(data={"amount": number}) for number in [2, 3] * 200))
    assert [receipt.status for receipt in receipts] == ["duplicate"] * 401
    assert [receipt.conflict for receipt in receipts] == [False] + [True] * 400
    event = await reader(store).event("1")
    assert event is not None
    assert sorted(conflict["envelope"]["data"]["amount"] for conflict in event["conflicts"]) == [2, 3]


async def test_a_conflict_inside_one_request_is_recorded_too(store: DatabaseStore):
    first, second = await accept(store, an_arrival(data=1), an_arrival(data=2))
    assert (first.status, first.conflict) == ("accepted", False)
    assert (second.status, second.conflict) == ("duplicate", True)


async def test_identity_is_source_and_id_within_an_app(store: DatabaseStore, store_url: str):
    await accept(store, an_arrival(event=an_event("1", source="/a")))
    await accept(store, an_arrival(event=an_event("1", source="/b")))
    await accept(store, an_arrival(app="other", event=an_event("1", source="/a")), app="other")
    assert await count(store_url, "wakeful_run") == 3


async def test_an_unmatched_event_is_kept_and_visible(store: DatabaseStore, store_url: str):
    receipts = await accept(store, an_arrival(agents=(), state="unmatched", reason="no agent takes it"))
    assert receipts == [Receipt("/test", "1", "unmatched", [])]
    (event,) = (await reader(store).events(state="unmatched"))["events"]
    assert event["reason"] == "no agent takes it"
    assert await count(store_url, "wakeful_run") == 0
    assert (await accept(store, an_arrival(agents=(), state="unmatched")))[0].status == "duplicate"


async def test_an_expired_event_runs_nothing_and_says_so(store: DatabaseStore, store_url: str):
    arrival = an_arrival(state="expired", admission="expired", reason="expired yesterday")
    assert await accept(store, arrival) == [Receipt("/test", "1", "expired", [])]
    event = await reader(store).event("1")
    assert event is not None
    assert event["admissions"] == [{"agent": "agent", "state": "expired", "run": None, "reason": "expired yesterday"}]
    assert await count(store_url, "wakeful_run") == 0


async def test_a_denied_admission_is_stored_with_its_decision(store: DatabaseStore, store_url: str):
    decision = Decision("deny", rule="quiet_hours", reason="it is night", version="7")
    await accept(store, an_arrival(admission="denied", reason="quiet_hours: it is night", decision=decision))
    event = await reader(store).event("1")
    assert event is not None
    assert [(one["state"], one["run"]) for one in event["admissions"]] == [("denied", None)]
    (stored,) = event["decisions"]
    assert (stored["agent"], stored["answer"], stored["rule"], stored["version"], stored["reason"]) == (
        "agent", "deny", "quiet_hours", "7", "it is night",
    )  # fmt: skip
    assert await count(store_url, "wakeful_run") == 0


async def test_an_admitted_run_knows_when_its_event_expires(store: DatabaseStore, clock: VirtualClock):
    event = an_event()
    event.expirytime = to_datetime(clock.now()) + timedelta(hours=1)
    await accept(store, an_arrival(event=event))
    member = await join(store)
    assert (await member.claim_one()).expires_at == clock.now() + 3_600_000_000


class TestBatch:
    async def test_a_request_is_stored_whole_or_not_at_all(self, store: DatabaseStore, store_url: str):
        broken = an_arrival("2")
        broken.state = "nonsense"  # type: ignore[assignment]  # the schema refuses it
        with pytest.raises(Exception, match=r"(?i)check"):
            await accept(store, an_arrival("1"), broken, an_arrival("3"))
        assert await count(store_url, "wakeful_event") == 0
        assert await count(store_url, "wakeful_run") == 0

    async def test_a_bad_value_fails_only_its_own_request(self, store: DatabaseStore, store_url: str):
        broken = an_arrival("bad")
        broken.state = "nonsense"  # type: ignore[assignment]
        answers = await asyncio.gather(
            *(accept(store, an_arrival(str(number))) for number in range(5)),
            accept(store, broken),
            *(accept(store, an_arrival(str(number))) for number in range(5, 10)),
            return_exceptions=True,
        )
        assert [isinstance(answer, Exception) for answer in answers] == [False] * 5 + [True] + [False] * 5
        assert await count(store_url, "wakeful_run") == 10

    @pytest.mark.postgres
    async def test_postgresql_refuses_nul_to_its_caller_alone(self, stores: OpenStore, postgres_url: str):
        store = await stores(postgres_url)
        broken = an_arrival("bad")
        broken.subject = "a\0b"
        answers = await asyncio.gather(
            accept(store, an_arrival("1")),
            accept(store, broken),
            accept(store, an_arrival("2")),
            return_exceptions=True,
        )
        assert [isinstance(answer, Exception) for answer in answers] == [False, True, False]
        assert [event["id"] for event in (await reader(store).events())["events"]] == ["2", "1"]


class TestIdempotencyKey:
    async def test_the_same_key_and_request_get_the_first_answer_and_store_nothing(self, store: DatabaseStore):
        first = await accept(store, an_arrival(), idempotency=("key", "digest"))
        assert await accept(store, an_arrival(), idempotency=("key", "digest")) == first
        event = await reader(store).event("1")
        assert event is not None
        assert event["duplicates"] == 0

    async def test_the_key_with_another_request_is_refused_and_stores_nothing(
        self, store: DatabaseStore, store_url: str
    ):
        await accept(store, an_arrival("1"), idempotency=("key", "one"))
        with pytest.raises(IdempotencyConflict, match="key"):
            await accept(store, an_arrival("2"), idempotency=("key", "two"))
        assert await count(store_url, "wakeful_event") == 1

    async def test_keys_belong_to_an_app(self, store: DatabaseStore):
        await accept(store, an_arrival("1"), idempotency=("key", "one"))
        (receipt,) = await accept(store, an_arrival("2", app="other"), app="other", idempotency=("key", "two"))
        assert receipt.status == "accepted"

    async def test_equal_requests_in_one_transaction_get_one_answer(self, store: DatabaseStore, store_url: str):
        answers = await asyncio.gather(*(accept(store, an_arrival(), idempotency=("key", "digest")) for _ in range(5)))
        assert answers == [[Receipt("/test", "1", "accepted", [RUN])]] * 5
        event = await reader(store).event("1")
        assert event is not None
        assert event["duplicates"] == 0

    async def test_another_request_in_the_same_transaction_is_refused_and_stores_nothing(
        self, store: DatabaseStore, store_url: str
    ):
        first, second = await asyncio.gather(
            accept(store, an_arrival("1"), idempotency=("key", "one")),
            accept(store, an_arrival("2"), idempotency=("key", "two")),
            return_exceptions=True,
        )
        assert first == [Receipt("/test", "1", "accepted", [RUN])]
        assert isinstance(second, IdempotencyConflict)
        assert [event["id"] for event in (await reader(store).events())["events"]] == ["1"]

    async def test_requests_through_two_processes_at_once_get_one_answer(self, stores: OpenStore, store_url: str):
        one, other = await stores(store_url), await stores(store_url)
        answers = await asyncio.gather(
            *(accept(store, an_arrival(), idempotency=("key", "digest")) for store in (one, other) * 10)
        )
        assert answers == [[Receipt("/test", "1", "accepted", [RUN])]] * 20

    async def test_of_two_requests_through_two_processes_at_once_one_is_refused_and_stores_nothing(
        self, stores: OpenStore, store_url: str
    ):
        one, other = await stores(store_url), await stores(store_url)
        for number in range(10):
            answers = await asyncio.gather(
                accept(one, an_arrival(f"{number}-a"), idempotency=(f"key {number}", "one")),
                accept(other, an_arrival(f"{number}-b"), idempotency=(f"key {number}", "two")),
                return_exceptions=True,
            )
            assert sorted(isinstance(answer, IdempotencyConflict) for answer in answers) == [False, True]
        assert await count(store_url, "wakeful_event") == 10

    async def test_a_refused_request_leaves_its_key_free(self, store: DatabaseStore):
        broken = an_arrival("1")
        broken.state = "nonsense"  # type: ignore[assignment]
        with pytest.raises(Exception, match=r"(?i)check"):
            await accept(store, broken, idempotency=("key", "one"))
        (receipt,) = await accept(store, an_arrival("2"), idempotency=("key", "two"))
        assert receipt.status == "accepted"


async def test_the_same_event_through_two_processes_at_once_is_one_run(stores: OpenStore, store_url: str):
    one, other = await stores(store_url), await stores(store_url)
    answers = await asyncio.gather(*(accept(store, an_arrival()) for store in (one, other) * 25))
    assert sorted(receipt.status for (receipt,) in answers) == ["accepted"] + ["duplicate"] * 49
    assert {tuple(receipt.runs) for (receipt,) in answers} == {(RUN,)}
    event = await reader(one).event("1")
    assert event is not None
    assert event["duplicates"] == 49


async def test_batches_in_opposite_orders_do_not_block_each_other(stores: OpenStore, store_url: str):
    """Rows are written in the order of their keys, so that two processes never wait for each other in a circle."""
    one, other = await stores(store_url), await stores(store_url)
    arrivals = [an_arrival(str(number)) for number in range(200)]
    answers = await asyncio.gather(
        one.do(AcceptEvents(APP, arrivals)), other.do(AcceptEvents(APP, list(reversed(arrivals))))
    )
    statuses = [receipt.status for receipts in answers for receipt in receipts]
    assert (statuses.count("accepted"), statuses.count("duplicate")) == (200, 200)


@pytest.mark.postgres
async def test_a_second_acceptor_waits_for_the_first_ones_commit(stores: OpenStore, postgres_url: str):
    """Forced in order: while another transaction has inserted the event and not committed, the answer waits for it."""
    import asyncpg

    from support.locks import waiting_for_a_lock

    store = await stores(postgres_url)
    first = await asyncpg.connect(postgres_url)
    try:
        transaction = first.transaction()
        await transaction.start()
        await accept_within(store, first, AcceptEvents(APP, [an_arrival()]))
        second = asyncio.ensure_future(accept(store, an_arrival()))
        await waiting_for_a_lock(postgres_url)
        assert not second.done()
        await transaction.commit()
        assert await second == [Receipt("/test", "1", "duplicate", [RUN])]
    finally:
        await first.close()
    assert await query(postgres_url, "select count(*) from wakeful_run") == [(1,)]
