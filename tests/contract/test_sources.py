"""Sources in the store: who may write, what is stored together, and who wins where several come at once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from support.locks import waiting_for_a_lock
from support.stores import (
    AGENT,
    APP,
    Member,
    Onlooker,
    OpenStore,
    accept,
    an_arrival,
    an_event,
    count,
    join,
    query,
    reader,
)
from wakeful.clock import VirtualClock
from wakeful.errors import SourceLost, StoreUnavailable
from wakeful.intake.quarantine import keep, raw_of
from wakeful.model import Arrival, SourceState, digest, event_key
from wakeful.resources.desk import looking
from wakeful.resources.quarantine_reading import input_of
from wakeful.stores.alarm import Alarm, source_alarm
from wakeful.stores.journal import Died
from wakeful.stores.known import waiting_inputs
from wakeful.stores.request import Actor
from wakeful.stores.store import DatabaseStore
from wakeful.stores.verbs.accept import AcceptEvents
from wakeful.stores.verbs.quarantine import EndQuarantine
from wakeful.stores.verbs.sources import (
    EnterSources,
    ForgetOld,
    ForgetSource,
    HeldSource,
    HoldSource,
    LetSourceGo,
    ReportSource,
    StoredSource,
    find_source,
    held_sources,
)
from wakeful.stores.verbs.take_in import Item, Kept, TakeIn, items_of

TAPE = "tape"


async def entered(store: DatabaseStore, *names: str) -> None:
    await store.do(EnterSources(APP, [(name, "tape") for name in names or (TAPE,)], {TAPE: [AGENT]}))


async def held(member: Member, name: str = TAPE) -> HeldSource:
    found = await member.store.do(HoldSource(APP, name, member.process))
    assert found is not None
    return found


async def stored(store: DatabaseStore, name: str = TAPE) -> StoredSource:
    found = await find_source(store.database, APP, name)
    assert found is not None
    return found


def events(*numbers: int, **more: Any) -> AcceptEvents:
    return AcceptEvents(APP, [an_arrival(str(number), **more) for number in numbers])


def bad(raw: bytes = b"?", reason: str = "it is no JSON") -> Kept:
    return keep(APP, "/tape", raw, reason, kind="unreadable", headers={"line": "7", "Authorization": "secret"})


def named(identifier: str, *aliases: str) -> Arrival:
    arrival = an_arrival(identifier, data={"same": True})
    arrival.aliases = tuple(digest(alias) for alias in aliases)
    return arrival


class TestHolding:
    async def test_one_at_a_time(self, member: Member, stores: OpenStore, store_url: str, clock: VirtualClock):
        await entered(member.store)
        other = await join(await stores(store_url), "second", lease="1h")
        first = await held(member)
        assert await other.store.do(HoldSource(APP, TAPE, other.process)) is None
        assert await held_sources(other.store.database, APP) == {TAPE: member.process}
        clock.move("16s")  # its lease is over
        second = await held(other)
        assert second.token > first.token

    async def test_what_is_let_go_may_be_taken_at_once(self, member: Member, stores: OpenStore, store_url: str):
        await entered(member.store)
        other = await join(await stores(store_url), "second")
        first = await held(member)
        await member.store.do(LetSourceGo(APP, TAPE, member.process, first.token))
        assert (await stored(member.store)).holder is None
        second = await held(other)
        await member.store.do(LetSourceGo(APP, TAPE, member.process, first.token))  # a late word changes nothing
        assert (await stored(member.store)).holder == other.process
        assert second.token == first.token + 1

    @pytest.mark.parametrize(("state", "after"), [("failing", ("failing", "so")), ("paused", ("idle", None))])
    async def test_why_it_is_paused_is_no_news_once_it_is_let_go(
        self, member: Member, state: SourceState, after: tuple[str, str | None]
    ):
        await entered(member.store)
        one = await held(member)
        await member.store.do(ReportSource(APP, TAPE, state, "so", one.token))
        await member.store.do(LetSourceGo(APP, TAPE, member.process, one.token))
        found = await stored(member.store)
        assert (found.state, found.error) == after

    async def test_taking_what_one_has_already_gives_a_new_token(self, member: Member):
        await entered(member.store)
        first = await held(member)
        again = await held(member)
        assert again.token == first.token + 1

    async def test_what_nobody_entered_cannot_be_had(self, member: Member):
        assert await member.store.do(HoldSource(APP, "other", member.process)) is None

    async def test_of_many_who_come_at_once_one_gets_it(self, stores: OpenStore, store_url: str):
        members = [await join(await stores(store_url)) for _ in range(4)]
        names = [f"tape-{number}" for number in range(10)]
        await entered(members[0].store, *names)
        for name in names:
            got = await asyncio.gather(*(one.store.do(HoldSource(APP, name, one.process)) for one in members))
            assert sum(one is not None for one in got) == 1

    @pytest.mark.postgres
    async def test_two_who_wait_for_the_same_row(self, stores: OpenStore, postgres_url: str):
        members = [await join(await stores(postgres_url)) for _ in range(2)]
        await entered(members[0].store)
        import asyncpg

        gate = await asyncpg.connect(postgres_url)
        try:
            transaction = gate.transaction()
            await transaction.start()
            await gate.execute("select 1 from wakeful_source for update")
            asked = [asyncio.create_task(one.store.do(HoldSource(APP, TAPE, one.process))) for one in members]
            await waiting_for_a_lock(postgres_url, sessions=2)
            await transaction.rollback()
            got = await asyncio.gather(*asked)
        finally:
            await gate.close()
        assert sum(one is not None for one in got) == 1

    async def test_entering_again_changes_only_what_is_new(self, member: Member):
        await entered(member.store)
        one = await held(member)
        await member.store.do(TakeIn(APP, TAPE, None, member.process, one.token, "7"))
        await member.store.do(EnterSources(APP, [(TAPE, "roll")], {TAPE: ["other"]}))
        found = await stored(member.store)
        assert (found.kind, found.agents, found.cursor, found.holder) == ("roll", '["other"]', "7", member.process)


class TestTakingIn:
    async def test_events_cursor_items_and_quarantine_together(self, member: Member):
        await entered(member.store)
        one = await held(member)
        taken = await member.store.do(
            TakeIn(
                APP,
                TAPE,
                events(1, 2),
                member.process,
                one.token,
                "2",
                [Item("a", 1, "m"), Item("b", 1, "m", gone=True)],
                [bad()],
                lag=5,
                behind=3,
            )
        )
        assert [receipt.status for receipt in taken.receipts] == ["accepted", "accepted"]
        assert taken.kept == 1
        found = await stored(member.store)
        assert (found.cursor, found.taken, found.repeated, found.quarantined) == ("2", 2, 0, 1)
        assert (found.lag, found.behind) == (5, 3)
        assert await items_of(member.store.database, APP, TAPE) == [Item("a", 1, "m"), Item("b", 1, "m", gone=True)]
        (kept,) = (await reader(member.store).quarantine())["quarantine"]
        assert (kept["reason"], kept["size"], kept["state"], kept["came"]) == ("it is no JSON", 1, "kept", 1)
        whole = await input_of(looking(reader(member.store)), kept["key"][:8])
        assert whole is not None
        assert whole["headers"] == {"line": "7", "Authorization": "(not kept)"}

    async def test_a_stale_token_stores_nothing(
        self, member: Member, stores: OpenStore, store_url: str, clock: VirtualClock
    ):
        await entered(member.store)
        stale = await held(member)
        other = await join(await stores(store_url), "second", lease="1h")
        clock.move("16s")
        await held(other)
        late = TakeIn(APP, TAPE, events(1), member.process, stale.token, "1", [Item("a", 1, "m")], [bad()])
        with pytest.raises(StoreUnavailable, match="lease"):  # it may have been taken over: it writes nothing
            await member.store.do(late)
        assert await member.renew_in_thread()
        with pytest.raises(SourceLost, match="another process"):
            await member.store.do(late)
        found = await stored(member.store)
        assert (found.cursor, found.taken, found.quarantined) == (None, 0, 0)
        assert await items_of(member.store.database, APP, TAPE) == []
        assert (await reader(member.store).events())["events"] == []

    async def test_the_neighbours_of_a_stale_one_are_stored(self, member: Member):
        await entered(member.store, TAPE, "other")
        stale, good = await held(member), await held(member, "other")
        await held(member)
        answers = await asyncio.gather(
            member.store.do(TakeIn(APP, TAPE, events(1), member.process, stale.token, "1")),
            member.store.do(TakeIn(APP, "other", events(2), member.process, good.token, "1")),
            return_exceptions=True,
        )
        assert isinstance(answers[0], SourceLost)
        assert not isinstance(answers[1], BaseException)
        assert [one["id"] for one in (await reader(member.store).events())["events"]] == ["2"]

    async def test_a_death_in_between_leaves_nothing_behind(self, stores: OpenStore, store_url: str):
        def die(moment: str, requests: Sequence[Any]) -> None:
            if moment == "within" and any(isinstance(one, TakeIn) for one in requests):
                raise Died

        dying = await join(await stores(store_url, probe=die))
        await entered(dying.store)
        one = await held(dying)
        request = TakeIn(APP, TAPE, events(1), dying.process, one.token, "1", [Item("a", 1, "m")], [bad()])
        task = asyncio.create_task(dying.store.do(request))
        async with asyncio.timeout(60):
            while not dying.store.journal.is_dead():
                await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        outside = Onlooker(store_url)
        try:
            for table in ("event", "run", "quarantine", "source_item"):
                assert (await outside.query(f"select count(*) from wakeful_{table}"))[0][0] == 0, table
            assert (await outside.query("select cursor, taken from wakeful_source")) == [(None, 0)]
        finally:
            await outside.close()

    async def test_the_same_again_after_a_lost_answer_changes_nothing(self, member: Member, store_url: str):
        await entered(member.store)
        one = await held(member)

        def request() -> TakeIn:
            items = [Item("a", 1, "m")]
            return TakeIn(APP, TAPE, events(1, 2), member.process, one.token, "2", items, [bad()])

        await member.store.do(request())
        again = await member.store.do(request())
        assert [receipt.status for receipt in again.receipts] == ["duplicate", "duplicate"]
        assert again.kept == 0
        found = await stored(member.store)
        assert (found.cursor, found.quarantined) == ("2", 1)
        assert len((await reader(member.store).runs())["runs"]) == 2
        assert await count(store_url, "wakeful_quarantine") == 1
        (kept,) = (await reader(member.store).quarantine())["quarantine"]
        assert kept["came"] == 2

    async def test_no_cursor_leaves_the_one_that_is_there(self, member: Member):
        await entered(member.store)
        one = await held(member)
        await member.store.do(TakeIn(APP, TAPE, None, member.process, one.token, "7"))
        await member.store.do(TakeIn(APP, TAPE, events(1), member.process, one.token))
        assert (await stored(member.store)).cursor == "7"

    async def test_what_several_may_read_needs_no_token(self, member: Member):
        await entered(member.store)
        await member.store.do(TakeIn(APP, TAPE, events(1)))
        assert (await stored(member.store)).taken == 1

    async def test_a_big_batch(self, member: Member):
        await entered(member.store)
        one = await held(member)
        many = 5_000
        items = [Item(f"item-{number:05}", 1, "m") for number in range(many)]
        request = TakeIn(APP, TAPE, events(*range(many)), member.process, one.token, str(many), items)
        assert len((await member.store.do(request)).receipts) == many
        found = await stored(member.store)
        assert (found.cursor, found.taken) == (str(many), many)
        assert len(await items_of(member.store.database, APP, TAPE)) == many


class TestReporting:
    async def test_a_stale_holder_is_not_listened_to(self, member: Member):
        await entered(member.store)
        stale = await held(member)
        await held(member)
        await member.store.do(ReportSource(APP, TAPE, "failing", "torn", stale.token))
        assert (await stored(member.store)).state == "idle"

    async def test_counts_add_up_and_the_rest_stays(self, member: Member):
        await entered(member.store)
        await member.store.do(ReportSource(APP, TAPE, "reading", taken=3, refused=1, lag=7))
        await member.store.do(ReportSource(APP, TAPE, taken=2, repeated=1))
        found = await stored(member.store)
        assert (found.state, found.taken, found.repeated, found.refused, found.lag) == ("reading", 5, 1, 1, 7)

    async def test_an_alarm_opens_and_is_over_with_it(self, member: Member):
        await entered(member.store)
        key = source_alarm(APP, TAPE)
        await member.store.do(ReportSource(APP, TAPE, "failing", "torn", alarm=Alarm(APP, key, "torn")))
        assert [one["key"] for one in (await reader(member.store).alarms(state="open"))["alarms"]] == [key]
        await member.store.do(ReportSource(APP, TAPE, "reading", resolves=key))
        assert (await reader(member.store).alarms(state="open"))["alarms"] == []


class TestOtherNames:
    async def test_the_same_name_at_once_in_two_processes_is_one_event(self, stores: OpenStore, store_url: str):
        first, second = [await stores(store_url) for _ in range(2)]
        for number in range(10):
            a, b = named(f"a{number}", f"signature-{number}"), named(f"b{number}", f"signature-{number}")
            got = await asyncio.gather(accept(first, a), accept(second, b))
            statuses = sorted(receipt.status for receipts in got for receipt in receipts)
            assert statuses == ["accepted", "duplicate"]
        assert len((await reader(first).runs())["runs"]) == 10

    async def test_new_names_of_what_is_known_are_names_of_the_same(self, store: DatabaseStore):
        await accept(store, named("1", "first"))
        assert (await accept(store, named("2", "first", "second")))[0].status == "duplicate"
        assert (await accept(store, named("3", "second")))[0].status == "duplicate"
        assert [one["id"] for one in (await reader(store).events())["events"]] == ["1"]

    async def test_two_of_one_name_in_one_batch(self, store: DatabaseStore):
        receipts = await accept(store, named("1", "same"), named("2", "same"))
        assert [one.status for one in receipts] == ["accepted", "duplicate"]
        assert receipts[0].runs == receipts[1].runs

    async def test_go_after_the_window_and_only_those_of_the_app(
        self, store: DatabaseStore, clock: VirtualClock, store_url: str
    ):
        await accept(store, named("1", "first"))
        await accept(store, named("1", "elsewhere"), app="other")
        clock.move("2d")
        before = await reader(store).time()
        await accept(store, named("2", "second"))
        assert await store.journal.submit(ForgetOld(APP, before)) == 1
        rows = await query(store_url, "select app from wakeful_alias order by app")
        assert [row[0] for row in rows] == [APP, "other"]


class TestQuarantine:
    async def kept(self, store: DatabaseStore, raw: bytes = b"?") -> str:
        await entered(store)
        await store.do(TakeIn(APP, TAPE, kept=[bad(raw)]))
        key: str = (await reader(store).quarantine())["quarantine"][0]["key"]
        return key

    async def test_of_two_who_settle_at_once_one_wins(self, stores: OpenStore, store_url: str):
        first, second = [await stores(store_url) for _ in range(2)]
        for number in range(5):
            key = await self.kept(first, f"?{number}".encode())
            got = await asyncio.gather(
                first.do(EndQuarantine(APP, key, accept=events(number, data={"by": "ada"}), by=Actor("ada", "code"))),
                second.do(EndQuarantine(APP, key, by=Actor("bob", "code"))),
            )
            assert sum(one is not None for one in got) == 1
            found = await input_of(looking(reader(first)), key)
            assert found is not None
            released = got[0] is not None
            assert (found["state"], found["settled_by"]) == (("released", "ada") if released else ("discarded", "bob"))
            made = await reader(first).event(str(number))
            assert (made is not None) == released

    async def test_says_what_became_of_it(self, store: DatabaseStore):
        key = await self.kept(store)
        await store.do(EndQuarantine(APP, key, accept=events(1, 2), by=Actor("ada", "code"), note="mended"))
        found = await input_of(looking(reader(store)), key)
        assert found is not None
        assert found["became"] == {"key": event_key(APP, "/test", "1"), "events": 2}
        assert (found["state"], found["settled_by"], found["note"]) == ("released", "ada", "mended")
        made = await reader(store).event("1")
        assert made is not None
        assert made["released_from"]["key"] == key

    async def test_what_is_known_by_another_name_is_told_so(self, store: DatabaseStore):
        await accept(store, named("1", "signature"))
        key = await self.kept(store)
        accepting = AcceptEvents(APP, [named("2", "signature")])
        settled = await store.do(EndQuarantine(APP, key, accept=accepting, by=Actor("ada", "code")))
        assert settled is not None
        assert [one.status for one in settled.receipts] == ["duplicate"]
        found = await input_of(looking(reader(store)), key)
        assert found is not None
        assert found["became"]["key"] == event_key(APP, "/test", "1")

    async def test_a_death_in_between_leaves_it_kept(self, stores: OpenStore, store_url: str):
        def die(moment: str, requests: Sequence[Any]) -> None:
            if moment == "within" and any(isinstance(one, EndQuarantine) for one in requests):
                raise Died

        dying = await stores(store_url, probe=die)
        key = await self.kept(dying)
        task = asyncio.create_task(dying.do(EndQuarantine(APP, key, accept=events(1), by=Actor("ada", "code"))))
        async with asyncio.timeout(60):
            while not dying.journal.is_dead():
                await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        again = await stores(store_url)
        found = await input_of(looking(reader(again)), key)
        assert found is not None
        assert found["state"] == "kept"
        assert await reader(again).event("1") is None

    async def test_only_its_own_app_settles_it(self, store: DatabaseStore):
        key = await self.kept(store)
        assert await store.do(EndQuarantine("other", key, by=Actor("ada", "code"))) is None

    async def test_pages(self, store: DatabaseStore):
        await entered(store, TAPE, "other")
        for number in range(5):
            await store.do(TakeIn(APP, TAPE, kept=[bad(f"{number}".encode())]))
        await store.do(TakeIn(APP, "other", kept=[keep(APP, "/o", b"x", "who?", kind="unverified", headers={})]))
        seen: list[str] = []
        after = None
        while True:
            page = await reader(store).quarantine(source=TAPE, limit=2, after=after)
            seen += [one["key"] for one in page["quarantine"]]
            after = page["next"]
            if after is None:
                break
        assert len(set(seen)) == 5
        (unverified,) = (await reader(store).quarantine(kind="unverified"))["quarantine"]
        assert unverified["source"] == "other"
        assert (await reader(store).quarantine(state="released"))["quarantine"] == []
        assert [(one["source"], one["count"]) for one in await waiting_inputs(reader(store))] == [
            (TAPE, 5),
            ("other", 1),
        ]

    async def test_the_bytes_come_back_as_they_were(self, store: DatabaseStore):
        raw = bytes(range(256)) * 1_000
        key = await self.kept(store, raw)
        event = await reader(store).event(key)
        assert event is not None
        rows = await store.database.fetch("find_events", key)
        assert raw_of(rows[0][11]) == raw
        assert event["quarantine"]["size"] == len(raw)


class TestForgetting:
    async def test_a_source_goes_with_all_that_it_knows(self, member: Member):
        await entered(member.store)
        one = await held(member)
        await member.store.do(TakeIn(APP, TAPE, None, member.process, one.token, "1", [Item("a", 1, "m")]))
        assert not await member.store.do(ForgetSource(APP, TAPE, by=Actor("ada", "code")))  # it is read
        await member.store.do(LetSourceGo(APP, TAPE, member.process, one.token))
        assert await member.store.do(ForgetSource(APP, TAPE, by=Actor("ada", "code")))
        assert await find_source(member.store.database, APP, TAPE) is None
        assert await items_of(member.store.database, APP, TAPE) == []
        assert not await member.store.do(ForgetSource(APP, TAPE, by=Actor("ada", "code")))

    async def test_items_that_are_gone_for_long(self, store: DatabaseStore, clock: VirtualClock):
        await entered(store)
        await store.do(TakeIn(APP, TAPE, items=[Item("old", 2, "m", gone=True), Item("there", 1, "m")]))
        clock.move("2d")
        before = await reader(store).time()
        await store.do(TakeIn(APP, TAPE, items=[Item("young", 2, "m", gone=True)]))
        assert await store.journal.submit(ForgetOld(APP, 0, [(TAPE, before)])) == 1
        assert [one.item for one in await items_of(store.database, APP, TAPE)] == ["there", "young"]


def test_an_event_of_the_kit_is_what_the_door_would_make():
    assert an_arrival("1").key == event_key(APP, an_event("1").source, "1")
