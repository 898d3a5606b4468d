"""Large payloads lie in a table of their own, and nobody above the store can tell."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import apsw
import apsw.ext
import pytest

from support.apps import go, working
from support.stores import APP, OpenStore, a_step, accept, an_arrival, count, join, query, reader, state_of
from wakeful import App, Operation, Run, action, on
from wakeful.errors import PayloadMissing
from wakeful.model import run_id
from wakeful.stores.journal import Died
from wakeful.stores.migrations import migrations
from wakeful.stores.payloads import BLOB, LARGE, returned
from wakeful.stores.queries import load_queries
from wakeful.stores.request import Actor
from wakeful.stores.store import DatabaseStore
from wakeful.stores.verbs.accept import AcceptEvents
from wakeful.stores.verbs.state import ChangeState

RUN = run_id(APP, "agent", "/test", "1")
WIDE = "ü" * (LARGE + 1)


def large(text: str) -> dict[str, str]:
    return {"text": text * (LARGE // len(text) + 1)}


async def test_a_large_event_is_handed_to_its_run_and_shown(store: DatabaseStore, store_url: str):
    await accept(store, an_arrival(data=large("event ")))
    member = await join(store)
    claim = await member.claim_one()
    assert '"event event ' in claim.envelope
    event = await reader(store).event("1")
    assert event is not None
    assert event["envelope"]["data"] == large("event ")
    ((stored,),) = await query(store_url, "select envelope from wakeful_event")
    assert stored.startswith(BLOB)
    assert len(stored) < 100


async def test_what_is_not_large_stays_in_its_row(store: DatabaseStore, store_url: str):
    await accept(store, an_arrival(data="x" * (LARGE - 1000)))
    assert await count(store_url, "wakeful_blob") == 0


async def test_a_large_result_is_read_back_by_the_next_attempt(store: DatabaseStore):
    await accept(store, an_arrival())
    member = await join(store)
    claim = await member.claim_one()
    await member.save(claim, a_step("fetch:", result=f'"{WIDE}"'), a_step("count:", result="1"))
    await member.leave(claim)
    again = await member.claim_one()
    assert {step.key: step.result for step in again.steps} == {"fetch:": f'"{WIDE}"', "count:": "1"}


async def test_a_large_output_is_shown(store: DatabaseStore, store_url: str):
    await accept(store, an_arrival())
    member = await join(store)
    await member.finish(await member.claim_one(), output=f'"{WIDE}"')
    assert (await state_of(store, RUN))["output"] == WIDE
    assert await count(store_url, "wakeful_blob") == 1


async def test_a_duplicate_of_a_large_event_is_known_and_other_content_is_a_conflict(store: DatabaseStore):
    await accept(store, an_arrival(data={**large("a"), "b": 1}))
    (same,) = await accept(store, an_arrival(data={"b": 1, **large("a")}))
    (other,) = await accept(store, an_arrival(data={**large("c"), "b": 1}))
    assert (same.status, same.conflict) == ("duplicate", False)
    assert (other.status, other.conflict) == ("duplicate", True)
    event = await reader(store).event("1")
    assert event is not None
    assert event["conflicts"][0]["envelope"]["data"] == {**large("c"), "b": 1}


async def test_many_events_of_one_request_of_which_some_are_large(store: DatabaseStore, store_url: str):
    arrivals = [an_arrival(str(number), data=large("x") if number % 3 == 0 else number) for number in range(9)]
    assert [one.status for one in await accept(store, *arrivals)] == ["accepted"] * 9
    member = await join(store)
    claims = await member.claim(most=20)
    assert sorted(len(claim.envelope) > LARGE for claim in claims) == [False] * 6 + [True] * 3
    assert await count(store_url, "wakeful_blob") == 3


async def test_effects_messages_and_states_may_be_large(app: App):
    given: list[Any] = []

    @action(safety="idempotent")
    async def send(op: Operation, text: str) -> str:
        given.append(text)
        return text

    @app.agent(on("go"))
    async def handle(run: Run) -> str:
        answer: str = await run.act(send, WIDE)
        run.send("log", WIDE)
        return answer

    async with working(app) as runtime:
        run = await go(runtime)
        assert (run["state"], run["output"], given) == ("done", WIDE, [WIDE])
        assert run["effects"][0]["arguments"] == [WIDE]
        assert run["effects"][0]["result"] == WIDE
        assert run["deliveries"][0]["message"] == WIDE
        await runtime.store.do(ChangeState("app", "handle", "", f'"{WIDE}"', by=Actor("somebody", "code")))
        assert (await runtime.reader.states())[0]["value"] == WIDE


async def test_text_that_looks_like_a_reference_is_text(store: DatabaseStore):
    await accept(store, an_arrival(state="unmatched", agents=(), reason="@blob:0123"))
    event = await reader(store).event("1")
    assert event is not None
    assert event["reason"] == "@blob:0123"


async def test_a_reference_in_an_identity_is_not_followed(stores: OpenStore, store: DatabaseStore, store_url: str):
    await accept(store, an_arrival(data=large("secret")))
    ((stored,),) = await query(store_url, "select envelope from wakeful_event")
    await accept(store, an_arrival(stored))
    event = await reader(store).event(stored)
    assert event is not None
    assert event["id"] == stored


async def test_a_blob_that_somebody_removed_is_named(store: DatabaseStore, store_url: str):
    await accept(store, an_arrival(data=large("x")))
    await query(store_url, "delete from wakeful_blob")
    with pytest.raises(PayloadMissing, match="is not in wakeful_blob"):
        await reader(store).event("1")


async def test_a_death_before_the_commit_leaves_neither_row_nor_blob(stores: OpenStore, store_url: str):
    def die(point: str, requests: Sequence[Any]) -> None:
        if point == "within" and isinstance(requests[0], AcceptEvents):
            raise Died

    store = await stores(store_url, probe=die)
    waiting = asyncio.ensure_future(accept(store, an_arrival(data=large("x"))))
    while not store.journal.is_dead():
        await asyncio.sleep(0)
    waiting.cancel()
    assert (await count(store_url, "wakeful_event"), await count(store_url, "wakeful_blob")) == (0, 0)


def test_the_columns_of_every_query_are_known():
    """By them it is decided what comes back is a payload."""
    connection = apsw.Connection(":memory:")
    connection.execute("create table wakeful_migration (number bigint, name text, applied_at bigint)")
    for migration in migrations("sqlite"):
        connection.execute(migration.sql)
    sqlite, postgres = load_queries("sqlite"), load_queries("postgres")
    for name, one in sqlite.items():
        columns = apsw.ext.query_info(connection, one.sql).description
        assert len(returned(one.sql)) == len(columns), name
        assert len(returned(postgres[name].sql)) == len(columns), name
        assert postgres[name].returned == one.returned, name
