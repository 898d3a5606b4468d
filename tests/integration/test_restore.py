"""A store that was backed up while it worked, and restored elsewhere: nothing is missed there, and nothing alarms falsely."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from support.apps import NewApp, ended, working
from support.backups import BackUp
from support.stores import OpenStore, accept, an_arrival, an_event, query
from wakeful import App, Operation, Run, action, on
from wakeful.clock import VirtualClock
from wakeful.errors import TimedOut
from wakeful.stores.opening import open_database
from wakeful.stores.request import Actor
from wakeful.stores.store import DatabaseStore
from wakeful.stores.verbs.redo import RedoRun
from wakeful.stores.verbs.reminders import BEFORE_ALL, came_since, what_came
from wakeful.watch.facts import LAST_ARRIVALS, Facts
from wakeful.watch.watcher import Watcher


def orders(app: App) -> App:
    app.expect("ticks", event="tick", at_least_every="1h")

    @app.agent(on("go"))
    async def fulfil(run: Run) -> dict[str, Any]:
        shipped = await run.wait_for("shipped", subject="o1")
        paid = await run.wait_for("paid", subject="o1")
        signed = await run.wait_for("signed", subject="o1")
        try:
            early: Any = (await run.wait_for("early", subject="o1", timeout="1s")).id
        except TimedOut:
            early = None
        return {"shipped": shipped.id, "paid": paid.id, "signed": signed.id, "early": early}

    return app


async def test_waits_find_events_and_nothing_alarms_falsely_after_a_restore(
    new_app: NewApp, store_url: str, clock: VirtualClock, back_up: BackUp
):
    async with working(orders(new_app())) as runtime:
        await runtime.app.emit("early", id="early", subject="o1")
        receipt = await runtime.app.emit("go", id="1", subject="o1")
        assert (await ended(runtime, receipt))["state"] == "waiting"
        await runtime.app.emit("signed", id="signed", subject="o1")
        for _ in range(LAST_ARRIVALS + 1):
            clock.move("10m")
            await runtime.app.emit("tick")
        restore = await back_up(store_url)

    restored = await restore()
    async with working(orders(new_app()), store=restored) as runtime:
        watcher = Watcher(Facts(runtime.database), runtime.store, time_passes=False)
        await runtime.app.emit("paid", id="paid", subject="o1")  # before the run asks for it
        await runtime.app.emit("shipped", id="shipped", subject="o1")
        run = await ended(runtime, receipt)
        clock.move("2s")
        run = await ended(runtime, receipt)
        assert (run["state"], run["output"]) == (
            "done",
            {"shipped": "shipped", "paid": "paid", "signed": "signed", "early": None},
        )
        for _ in range(6):
            clock.move("30m")
            await runtime.app.emit("tick")
            await watcher.run_once()
        assert (await runtime.reader.alarms())["alarms"] == []
        clock.move("2h")
        await watcher.run_once()  # and what is late is told
        assert [one["key"] for one in (await runtime.reader.alarms())["alarms"]] == ["expect/app/ticks/not-fired"]


def paying(app: App, calls: list[tuple[str, str]]) -> App:
    """An agent that does one effect of each kind after it was told to go on."""

    def found(op: Operation, amount: int) -> str | None:
        return next((f"found {amount}" for name, identifier in calls if (name, identifier) == ("refund", op.id)), None)

    @action(safety="at_most_once")
    async def book(op: Operation, amount: int) -> str:
        calls.append(("book", op.id))
        return f"booked {amount}"

    @action(safety="idempotent")
    async def charge(op: Operation, amount: int) -> str:
        calls.append(("charge", op.id))
        return f"charged {amount}"

    @action(safety="reconcile", find=found, settle="0s")
    async def refund(op: Operation, amount: int) -> str:
        calls.append(("refund", op.id))
        return f"refunded {amount}"

    @app.agent(on("go"))
    async def pay(run: Run) -> list[str]:
        first = await run.act(book, 1)
        await run.wait_for("on", subject="o1")
        return [first, await run.act(charge, 2), await run.act(refund, 3), await run.act(book, 4)]

    return app


async def test_effects_that_were_done_after_the_backup(new_app: NewApp, store_url: str, back_up: BackUp):
    """They are not in the ledger that was restored. Nobody knows whether they were done: each is settled as it was declared."""
    calls: list[tuple[str, str]] = []
    async with working(paying(new_app(), calls)) as runtime:
        receipt = await runtime.app.emit("go", subject="o1")
        await runtime.drain()
        restore = await back_up(store_url)
        await runtime.app.emit("on", subject="o1")
        assert (await ended(runtime, receipt))["state"] == "done"
    done = list(calls)
    assert [name for name, _ in done] == ["book", "charge", "refund", "book"]

    async with working(paying(new_app(), calls), store=await restore()) as runtime:
        await runtime.app.emit("on", subject="o1")
        run = await ended(runtime, receipt)
        assert calls[len(done) :] == [
            done[1]
        ]  # repeated under the same id; the refund was found; nothing was booked again
        assert run["state"] == "held"
        (held,) = [one for one in run["effects"] if one["state"] == "held"]
        assert held["action"].endswith("book")
        assert "the store was restored from a backup" in held["reason"]
        # What begins after the restore is as ever.
        new = await ended(runtime, await runtime.app.emit("go", id="new", subject="o2"))
        assert new["state"] == "waiting"


async def test_a_later_run_of_a_restored_family_is_in_doubt_too(new_app: NewApp, store_url: str, back_up: BackUp):
    """It does the same operations, which an earlier run may have done after the backup."""
    calls: list[str] = []
    broken = [True]

    def posting(app: App) -> App:
        @action
        async def post(op: Operation, number: int) -> str:
            calls.append(op.id)
            return f"posted {number}"

        @app.agent(on("go"))
        async def agent(run: Run) -> str:
            if broken:
                return "not yet"
            return await run.act(post, 7)

        return app

    async with working(posting(new_app())) as runtime:
        run = await ended(runtime, await runtime.app.emit("go"))
        restore = await back_up(store_url)
        broken.clear()
        await runtime.store.do(RedoRun(run["id"], again=True, by=Actor("ada", "code")))
        await runtime.drain()
    assert len(calls) == 1
    async with working(posting(new_app()), store=await restore()) as runtime:
        redone = await runtime.store.do(RedoRun(run["id"], again=True, by=Actor("ada", "code")))
        await runtime.drain()
        assert redone is not None
        again = await runtime.reader.run(redone.run)
        assert again is not None
        assert (again["id"], again["state"]) == (f"{run['id']}.1", "held")
        fresh = await ended(runtime, await runtime.app.emit("go"))
        assert fresh["state"] == "done"
    assert len(calls) == 2


async def test_a_store_that_was_moved_while_nobody_worked_on_it(new_app: NewApp, store_url: str, back_up: BackUp):
    """Nothing can have been done after the backup: nothing is in doubt."""
    calls: list[tuple[str, str]] = []
    async with working(paying(new_app(), calls)) as runtime:
        receipt = await runtime.app.emit("go", subject="o1")
        await runtime.drain()
    restored = await (await back_up(store_url))()
    async with working(paying(new_app(), calls), store=restored) as runtime:
        await runtime.app.emit("on", subject="o1")
        assert (await ended(runtime, receipt))["state"] == "done"
    assert [name for name, _ in calls] == ["book", "charge", "refund", "book"]


async def test_what_came_since_a_mark(
    store_url: str, clock: VirtualClock, stores: OpenStore, back_up: BackUp, new_app: NewApp
):
    """Marks of reminders, from before and after a restore, and of a second one."""

    async def came(store: DatabaseStore, mark: str) -> list[str]:
        found: list[str] = []
        passed = BEFORE_ALL
        while page := await came_since(store.database, "app", "paid", mark, passed):
            found += [one.id for one in page[:1]]  # in pages of one
            passed = page[0].place
        return found

    def paid(identifier: str):
        return an_arrival(identifier, event=an_event(identifier, type="paid"))

    store = await stores(store_url)
    await accept(store, paid("1"))
    first = await what_came(store.database)
    await accept(store, paid("2"))
    store = await stores(await (await back_up(store_url))())
    second = await what_came(store.database)
    await accept(store, paid("3"))
    await accept(store, paid("4"))
    third = await what_came(store.database)
    await accept(store, paid("5"))
    assert await came(store, first) == ["2", "3", "4", "5"]
    assert await came(store, second) == ["3", "4", "5"]
    assert await came(store, third) == ["5"]


async def test_a_restore_is_noticed_once_and_the_same_cluster_never(
    stores: OpenStore, store_url: str, back_up: BackUp, dialect
):
    store = await stores(store_url)
    await accept(store, an_arrival("1"))
    origins = "select number, event_seq, run_seq from wakeful_origin order by number"
    before = await query(store_url, origins)
    await stores(store_url)
    assert await query(store_url, origins) == before
    restored = await (await back_up(store_url))()
    for _ in range(2):
        await stores(restored)
    after = await query(restored, origins)
    assert after == [*before, (len(before), 2, 2)]
    assert await query(store_url, origins) == before


@pytest.mark.postgres
class TestOnPostgres:
    async def test_a_process_that_stays_notices_that_the_server_is_another_one(
        self, postgres_url: str, back_up: BackUp, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
    ):
        """The address is the same, behind it stands another cluster: it connects anew, and looks before it writes."""
        store = DatabaseStore(open_database(postgres_url, clock))
        await store.open(migrate=False)
        try:
            await accept(store, an_arrival("1"))
            restored = await (await back_up(postgres_url))()
            monkeypatch.setattr(store.database.connections, "dsn", restored)  # type: ignore[attr-defined]
            for connection in store.database._idle:  # type: ignore[attr-defined]
                connection.terminate()
            await accept(store, an_arrival("2"))
            rows = await query(restored, "select event_seq from wakeful_origin where number = 1")
            assert rows == [(2,)]
        finally:
            await store.close()

    async def test_a_store_without_origins_whose_transactions_are_still_to_come(
        self, postgres_url: str, back_up: BackUp, stores: OpenStore
    ):
        """It was restored before this was known to matter."""
        await accept(await stores(postgres_url), an_arrival("1"))
        await accept(await stores(postgres_url), an_arrival("2"))
        await query(postgres_url, "delete from wakeful_origin")
        restored = await (await back_up(postgres_url))()
        await stores(restored)
        rows = await query(restored, "select number, identity = 'unknown', event_seq from wakeful_origin order by 1")
        assert rows == [(0, True, 0), (1, False, 3)]

    async def test_several_at_once_settle_it_once(self, postgres_url: str, back_up: BackUp, stores: OpenStore):
        await accept(await stores(postgres_url), an_arrival("1"))
        restored = await (await back_up(postgres_url))()
        await asyncio.gather(*(stores(restored) for _ in range(6)))
        assert await query(restored, "select count(*) from wakeful_origin") == [(2,)]
