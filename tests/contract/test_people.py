"""What people are told and what they did: alarms and operations."""

from __future__ import annotations

import asyncio

from support.stores import OpenStore, query, reader
from wakeful.clock import VirtualClock, to_text
from wakeful.stores.base import Alarm, RaiseAlarm, RecordOperation
from wakeful.stores.store import DatabaseStore


async def raise_alarm(store: DatabaseStore, text: str = "something broke", key: str = "key") -> None:
    await store.raise_alarm(RaiseAlarm(Alarm("app", key, text)))


async def the_alarm(store: DatabaseStore) -> dict[str, object]:
    (alarm,) = (await reader(store).alarms())["alarms"]
    return dict(alarm)


async def test_an_alarm_opens(store: DatabaseStore, clock: VirtualClock):
    await raise_alarm(store)
    assert await the_alarm(store) == {
        "key": "key",
        "app": "app",
        "state": "open",
        "text": "something broke",
        "count": 1,
        "opened_at": to_text(clock.now()),
        "last_at": to_text(clock.now()),
    }


async def test_raising_it_again_refreshes_it(store: DatabaseStore, clock: VirtualClock):
    await raise_alarm(store)
    opened = to_text(clock.now())
    clock.move("1m")
    await raise_alarm(store, "it broke again")
    alarm = await the_alarm(store)
    assert (alarm["state"], alarm["count"], alarm["text"]) == ("open", 2, "it broke again")
    assert (alarm["opened_at"], alarm["last_at"]) == (opened, to_text(clock.now()))


async def test_an_acknowledged_one_stays_acknowledged(store: DatabaseStore, store_url: str):
    await raise_alarm(store)
    await query(store_url, "update wakeful_alarm set state = 'acknowledged'")
    await raise_alarm(store)
    alarm = await the_alarm(store)
    assert (alarm["state"], alarm["count"]) == ("acknowledged", 2)


async def test_a_resolved_one_opens_anew(store: DatabaseStore, store_url: str, clock: VirtualClock):
    await raise_alarm(store)
    await raise_alarm(store)
    await query(store_url, "update wakeful_alarm set state = 'resolved'")
    clock.move("1d")
    await raise_alarm(store, "it is back")
    alarm = await the_alarm(store)
    assert (alarm["state"], alarm["count"], alarm["text"]) == ("open", 1, "it is back")
    assert alarm["opened_at"] == to_text(clock.now())


async def test_the_same_alarm_many_times_at_once_is_counted(stores: OpenStore, store_url: str):
    one, other = await stores(store_url), await stores(store_url)
    await asyncio.gather(*(raise_alarm(store) for store in (one, other) * 10))
    assert (await the_alarm(one))["count"] == 20


async def test_alarms_are_listed_by_state_and_the_latest_first(
    store: DatabaseStore, store_url: str, clock: VirtualClock
):
    for key in ("a", "b", "c"):
        await raise_alarm(store, key=key)
        clock.move("1s")
    await query(store_url, "update wakeful_alarm set state = 'resolved' where key = 'b'")
    assert [alarm["key"] for alarm in (await reader(store).alarms())["alarms"]] == ["c", "b", "a"]
    assert [alarm["key"] for alarm in (await reader(store).alarms(state="open"))["alarms"]] == ["c", "a"]


async def test_what_a_person_did_is_written_down(store: DatabaseStore, store_url: str, clock: VirtualClock):
    await store.record_operation(RecordOperation("alice", "cancel", "app", "run 7", "it was wrong"))
    await store.record_operation(RecordOperation("bob", "migrate"))
    rows = await query(
        store_url, "select operator, verb, app, target, detail, done_at from wakeful_operation order by seq"
    )
    assert rows == [
        ("alice", "cancel", "app", "run 7", "it was wrong", clock.now()),
        ("bob", "migrate", None, None, None, clock.now()),
    ]
