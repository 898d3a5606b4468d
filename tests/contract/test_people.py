"""What people did is written down."""

from __future__ import annotations

from support.stores import query
from wakeful.clock import VirtualClock
from wakeful.stores.store import DatabaseStore
from wakeful.stores.verbs.people import RecordOperation


async def test_what_a_person_did_is_written_down(store: DatabaseStore, store_url: str, clock: VirtualClock):
    await store.do(RecordOperation("alice", "cancel", "app", "run 7", "it was wrong"))
    await store.do(RecordOperation("bob", "migrate"))
    rows = await query(
        store_url, "select operator, verb, app, target, detail, done_at from wakeful_operation order by seq"
    )
    assert rows == [
        ("alice", "cancel", "app", "run 7", "it was wrong", clock.now()),
        ("bob", "migrate", None, None, None, clock.now()),
    ]
