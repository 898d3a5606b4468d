"""Unverified inputs have a ceiling: the oldest go, exactly as many as it takes, and are counted where they came from."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import Any

import pytest

from support.stores import APP, OpenStore, count, query, reader
from wakeful.clock import SECOND, VirtualClock, duration
from wakeful.intake.quarantine import keep
from wakeful.resources.desk import looking
from wakeful.resources.quarantine_reading import input_of
from wakeful.stores.alarm import quarantine_alarm
from wakeful.stores.journal import Died
from wakeful.stores.keeping import Keeper
from wakeful.stores.migrations import migrations
from wakeful.stores.queries import Dialect
from wakeful.stores.request import Actor
from wakeful.stores.store import DatabaseStore
from wakeful.stores.verbs.accept import AcceptEvents
from wakeful.stores.verbs.quarantine import EndQuarantine
from wakeful.stores.verbs.quarantine_room import CutQuarantine
from wakeful.stores.verbs.sources import EnterSources
from wakeful.stores.verbs.take_in import Kept, QuarantineKind, TakeIn, TakenIn

HOOK = "/hooks/shop"
DAY = duration("1d")


def forged(number: int, size: int = 100, *, kind: QuarantineKind = "unverified") -> Kept:
    body = f"{number}:".encode().ljust(size, b"x")
    return keep(APP, HOOK, body, "the signature does not fit", kind=kind, headers={"content-type": "text/plain"})


async def take(store: DatabaseStore, *kept: Kept, ceiling: int | None = None, source: str = HOOK) -> TakenIn:
    return await store.do(TakeIn(APP, source, kept=list(kept), ceiling=ceiling))


async def entered(store: DatabaseStore, *names: str) -> None:
    await store.do(EnterSources(APP, [(name, "webhook") for name in names or (HOOK,)]))


async def cut(store: DatabaseStore, ceiling: int | None = None, before: int | None = None) -> int:
    keeper, gone = Keeper(store), 0
    while some := await keeper.cut_quarantine(CutQuarantine(APP, ceiling, before)):
        gone += some
    return gone


ROOM = "coalesce(room, size * 4 / 3 + 1024)"


async def held(store: DatabaseStore, url: str) -> int:
    """The sum as it is kept; it is that of the rows."""
    found: int = (await reader(store).quarantine())["unverified"]["held"]
    where = "kind = 'unverified' and state <> 'released'"
    assert [(found,)] == await query(
        url, f"select cast(coalesce(sum({ROOM}), 0) as bigint) from wakeful_quarantine where {where}"
    )
    return found


class TestTheCeilingInBytes:
    async def test_the_oldest_go_and_are_counted(self, store: DatabaseStore, store_url: str):
        await entered(store)
        room = forged(1).room
        for number in range(1, 11):
            taken = await take(store, forged(number), ceiling=5 * room)
            assert await held(store, store_url) <= 5 * room
            assert taken.cutting is (number == 6)
        page = await reader(store).quarantine()
        assert [one["key"] for one in page["quarantine"]] == [forged(number).arrival.key for number in range(10, 5, -1)]
        (told,) = page["unverified"]["cut"]
        assert (told["source"], told["why"], told["count"], told["bytes"]) == (HOOK, "bytes", 5, 5 * room)
        (source,) = await reader(store).sources()
        assert (source["cut"]["count"], source["quarantined"], source["kept"]) == (5, 10, 5)
        (alarm,) = (await reader(store).alarms(state="open"))["alarms"]
        assert alarm["key"] == quarantine_alarm(APP)

    async def test_events_and_blobs_go_with_them(self, store: DatabaseStore, store_url: str):
        await entered(store)
        large = [forged(number, 70_000) for number in range(6)]
        for one in large:
            await take(store, one, ceiling=2 * large[0].room)
        assert await count(store_url, "wakeful_event") == 2
        assert await count(store_url, "wakeful_quarantine") == 2
        assert await count(store_url, "wakeful_blob") == 2

    async def test_the_same_large_one_again_leaves_no_blob(self, store: DatabaseStore, store_url: str):
        await entered(store)
        for _ in range(3):
            await asyncio.gather(*(take(store, forged(1, 70_000), ceiling=10**6) for _ in range(3)))
        assert await count(store_url, "wakeful_blob") == 1
        assert await held(store, store_url) == forged(1, 70_000).room
        (one,) = (await reader(store).quarantine())["quarantine"]
        assert one["came"] == 9
        whole = await input_of(looking(reader(store)), one["key"])
        assert whole is not None
        assert whole["raw"]

    async def test_what_was_verified_stays_and_takes_no_room(self, store: DatabaseStore, store_url: str):
        await entered(store)
        await take(store, forged(0, kind="unreadable"))
        for number in range(1, 10):
            await take(store, forged(number), ceiling=2 * forged(1).room)
        kinds = [one["kind"] for one in (await reader(store).quarantine())["quarantine"]]
        assert kinds == ["unverified", "unverified", "unreadable"]

    async def test_what_a_person_released_stays_and_takes_no_room(self, store: DatabaseStore, store_url: str):
        await entered(store)
        await take(store, forged(1), forged(2))
        accept = AcceptEvents(APP, [forged(99, kind="unreadable").arrival])
        await store.do(EndQuarantine(APP, forged(1).arrival.key, accept=accept, by=Actor("ada", "code")))
        assert await held(store, store_url) == forged(2).room
        await store.do(EndQuarantine(APP, forged(2).arrival.key, by=Actor("ada", "code")))
        assert await held(store, store_url) == forged(2).room  # discarded: it is still there
        await take(store, forged(3))
        assert await cut(store, ceiling=forged(3).room) == 1
        left = {one["key"]: one["state"] for one in (await reader(store).quarantine())["quarantine"]}
        assert left == {forged(3).arrival.key: "kept", forged(1).arrival.key: "released"}

    async def test_without_a_ceiling_nothing_goes(self, store: DatabaseStore, store_url: str):
        await entered(store)
        for number in range(5):
            await take(store, forged(number))
        assert await cut(store) == 0
        assert await held(store, store_url) == 5 * forged(1).room

    async def test_two_processes_at_once_keep_the_sum_and_the_ceiling(
        self, store: DatabaseStore, stores: OpenStore, store_url: str
    ):
        await entered(store, HOOK, "/hooks/other")
        other = await stores(store_url)
        ceiling = 7 * forged(10).room
        await asyncio.gather(
            *(
                take(one, forged(number), ceiling=ceiling, source=source)
                for one, source, numbers in (
                    (store, HOOK, range(10, 60)),
                    (other, "/hooks/other", range(60, 99)),
                    (other, HOOK, range(30, 50)),  # the same again
                )
                for number in numbers
            )
        )
        await cut(store, ceiling)  # rows that another process had in hand are left for the next time
        assert await held(store, store_url) <= ceiling
        page = await reader(store).quarantine()
        assert sum(one["count"] for one in page["unverified"]["cut"]) + len(page["quarantine"]) >= 89


class TestTheCeilingInDays:
    async def test_what_is_older_goes(self, store: DatabaseStore, clock: VirtualClock):
        await entered(store)
        await take(store, forged(0, kind="unreadable"))
        for number in range(1, 150):
            await take(store, forged(number))
        clock.move("8d")
        await take(store, forged(1_000))
        assert await cut(store, before=clock.now() - 7 * DAY) == 149
        page = await reader(store).quarantine()
        assert [one["kind"] for one in page["quarantine"]] == ["unverified", "unreadable"]
        (told,) = page["unverified"]["cut"]
        assert (told["why"], told["count"]) == ("days", 149)
        assert (await reader(store).alarms(state="open"))["alarms"] == []


class TestTheAlarm:
    async def test_it_is_over_after_a_day_without(self, store: DatabaseStore, clock: VirtualClock):
        await entered(store)
        ceiling = forged(1).room
        began = [(await take(store, forged(number), ceiling=ceiling)).cutting for number in range(4)]
        assert began == [False, True, False, False]
        await cut(store, ceiling)
        assert len((await reader(store).alarms(state="open"))["alarms"]) == 1
        clock.move(DAY + SECOND)
        await cut(store, ceiling)
        assert (await reader(store).alarms(state="open"))["alarms"] == []
        assert (await take(store, forged(9), ceiling=ceiling)).cutting


class TestOlderVersions:
    async def test_what_they_kept_is_counted_and_goes_too(self, store: DatabaseStore, store_url: str):
        await entered(store)
        for number in range(4):
            await take(store, forged(number))
        await query(store_url, "update wakeful_quarantine set room = null")
        await query(store_url, "update wakeful_quarantine_room set held = 7")
        assert await cut(store, 2 * (100 * 4 // 3 + 1024)) == 2
        assert await held(store, store_url) == 2 * (100 * 4 // 3 + 1024)

    async def test_a_migration_counts_what_is_there(self, store: DatabaseStore, store_url: str, dialect: Dialect):
        await entered(store)
        kept = [forged(1), forged(2, 70_000), forged(3, kind="unreadable")]  # the second has a blob
        await take(store, *kept)
        await query(store_url, "update wakeful_quarantine set room = null")
        await query(store_url, "delete from wakeful_quarantine_room")
        (migration,) = [one for one in migrations(dialect) if one.number == 17]
        for statement in re.findall(r"^(?:update|insert) [^;]*;", migration.sql, re.MULTILINE):
            await query(store_url, statement)
        assert await held(store, store_url) == kept[0].room + kept[1].room


@pytest.mark.parametrize("point", ["before", "within", "after"])
async def test_a_crash_leaves_rows_and_sum_alike(stores: OpenStore, store_url: str, point: str):
    """The process dies at the third request, the first that cuts: all of it is stored, or nothing."""
    dying = False

    def probe(where: str, _: Sequence[Any]) -> None:
        if dying and where == point:
            raise Died

    doomed = await stores(store_url, probe=probe)
    await entered(doomed)
    ceiling = 2 * forged(1).room
    for number in (1, 2):
        await take(doomed, forged(number), ceiling=ceiling)
    dying = True
    task = asyncio.ensure_future(take(doomed, forged(3), ceiling=ceiling))
    while not doomed.journal.is_dead():
        await asyncio.sleep(0)
    task.cancel()
    fresh = await stores(store_url)
    assert await held(fresh, store_url) == ceiling
    page = await reader(fresh).quarantine()
    newest = 3 if point == "after" else 2
    assert [one["key"] for one in page["quarantine"]] == [forged(n).arrival.key for n in (newest, newest - 1)]
    assert sum(one["count"] for one in page["unverified"]["cut"]) == newest - 2
