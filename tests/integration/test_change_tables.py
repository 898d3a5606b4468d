"""Changes of rows through a change table, in SQLite and in PostgreSQL, on both stores: none lost, none doubled, none made up."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from support.apps import FOREVER, NewApp, working
from support.shops import Shop, until
from wakeful import App, Event, Run
from wakeful.connect.rows.change import RowChange
from wakeful.runtime import Runtime
from wakeful.stores.journal import Died
from wakeful.stores.verbs.processes import BuryProcess, other_processes
from wakeful.stores.verbs.sources import StoredSource, find_source
from wakeful.stores.verbs.take_in import TakeIn
from wakeful.triggers.source import Batch


@pytest.fixture
def shop(any_shop: Shop) -> Shop:
    return any_shop


def watching(new_app: NewApp, seen: list[Event], *triggers: Any, **options: Any) -> App:
    app = new_app(**options)

    @app.agent(*triggers)
    async def note(run: Run) -> None:
        seen.append(run.event)

    return app


async def the_source(runtime: Runtime) -> StoredSource:
    (name,) = runtime.sources.readings
    found = await find_source(runtime.store.database, runtime.app.name, name)
    assert found is not None
    return found


async def waiting(shop: Shop) -> int:
    ((count,),) = await shop.do("select count(*) from wakeful_change")
    return int(count)


async def test_rows_that_are_inserted_updated_and_deleted_are_events_and_those_before_are_not(
    new_app: NewApp, shop: Shop
):
    seen: list[Event] = []
    await shop.do("insert into orders values (1, 'before', 1.5)")
    async with working(watching(new_app, seen, shop.changes()), reading="drained") as runtime:
        await runtime.drain()
        assert seen == []
        await shop.do("insert into orders values (2, 'Ann', 2.5)")
        await shop.do("update orders set total = 3.25 where id = 1")
        await shop.do("delete from orders where id = 2")
        await runtime.drain()
        events = sorted(seen, key=lambda event: event.type)
        assert [event.type for event in events] == [
            f"{shop.database}.orders.{one}" for one in ("delete", "insert", "update")
        ]
        delete, insert, update = (event.data for event in events)
        row = {"id": 2, "customer": "Ann", "total": 2.5}
        assert insert == {
            "operation": "insert",
            "table": "orders",
            "key": {"id": 2},
            "new": row,
            "old": None,
            "changed": None,
        }
        assert (delete["old"], delete["new"], delete["key"]) == (row, None, {"id": 2})
        assert update["changed"] == ["total"]
        assert (update["old"]["total"], update["new"]["total"]) == (1.5, 3.25)
        assert {event.subject for event in events} == {"orders/1", "orders/2"}
        assert all(event.time is not None for event in events)
        await runtime.drain()
        assert await waiting(shop) == 0
        found = await the_source(runtime)
        assert (found.taken, found.repeated, found.quarantined) == (3, 0, 0)


async def test_an_update_that_changes_the_key_tells_both(new_app: NewApp, shop: Shop):
    seen: list[Event] = []
    await shop.do("insert into orders values (1, 'Ann', 1)")
    async with working(watching(new_app, seen, shop.changes(operations="update")), reading="drained") as runtime:
        await runtime.drain()
        await shop.do("update orders set id = 7")
        await runtime.drain()
        (event,) = seen
        assert (event.data["key"], event.data["old"]["id"], event.data["changed"]) == ({"id": 7}, 1, ["id"])


async def test_only_what_is_wanted_of_a_table_is_told(new_app: NewApp, shop: Shop):
    seen: list[Event] = []
    trigger = shop.changes(columns=["total"], operations=["insert", "update"], where="data.new.total > 5.0")
    async with working(watching(new_app, seen, trigger), reading="drained") as runtime:
        await runtime.drain()
        await shop.do("insert into orders values (1, 'Ann', 1)")
        await shop.do("insert into orders values (2, 'Bea', 10)")
        await shop.do("update orders set customer = 'Cid' where id = 2")
        await shop.do("delete from orders where id = 1")
        await runtime.drain()
        (event,) = seen
        assert (event.data["key"], event.data["new"]) == ({"id": 2}, {"total": 10.0})
        found = await the_source(runtime)
        assert found.taken == 2  # the first one is stored with the reason why it woke nobody
        assert await waiting(shop) == 0


async def test_what_was_stored_and_not_deleted_is_a_repeat(new_app: NewApp, shop: Shop):
    seen: list[Event] = []

    def die_after(moment: str, requests: Sequence[Any]) -> None:
        if moment == "after" and any(isinstance(one, TakeIn) for one in requests):
            raise Died

    async with working(watching(new_app, seen, shop.changes()), reading="drained") as runtime:
        await runtime.drain()
    await shop.many("insert into orders values ($1, 'Ann', 1)", [(number,) for number in range(5)])
    runtime = Runtime(watching(new_app, seen, shop.changes()), lease=FOREVER, probe=die_after)
    await runtime.open(migrate=True)
    await runtime.start()
    await until(lambda: _dead(runtime))
    await runtime.die()
    assert await waiting(shop) == 5
    async with working(watching(new_app, seen, shop.changes()), reading="drained") as again:
        for process, _, _ in await other_processes(again.store.database, again.membership.process):
            await again.store.do(BuryProcess(process, certain=True))
        await again.drain()
        assert sorted(event.data["key"]["id"] for event in seen) == [0, 1, 2, 3, 4]
        assert (await the_source(again)).repeated == 5
        await again.drain()
        assert await waiting(shop) == 0


async def _dead(runtime: Runtime) -> bool:
    return runtime.store.journal.is_dead()


async def test_what_happened_while_nobody_read_is_read_later(new_app: NewApp, shop: Shop):
    seen: list[Event] = []
    async with working(watching(new_app, seen, shop.changes()), reading="drained") as runtime:
        await runtime.drain()
    await shop.do("insert into orders values (1, 'Ann', 1)")
    async with working(watching(new_app, seen, shop.changes()), reading="drained") as runtime:
        await runtime.drain()
        assert [event.data["key"] for event in seen] == [{"id": 1}]


async def test_a_column_that_is_added_is_told(new_app: NewApp, shop: Shop):
    seen: list[Event] = []
    async with working(watching(new_app, seen, shop.changes()), reading="drained") as runtime:
        await runtime.drain()
        await shop.do("alter table orders add column note text")
        await runtime.drain()
        await shop.do("insert into orders values (1, 'Ann', 1, 'be quick')")
        await runtime.drain()
        assert seen[0].data["new"]["note"] == "be quick"


@pytest.mark.slow
async def test_ten_thousand_rows_none_lost_none_doubled(new_app: NewApp, shop: Shop):
    seen: list[Event] = []
    app = watching(new_app, seen, shop.changes(operations="insert"), clock=None, backlog=None)
    async with working(app) as runtime:
        (reading,) = runtime.sources.readings.values()
        await until(lambda: _installed(shop))
        for start in range(0, 10_000, 500):
            await shop.many(
                "insert into orders values ($1, 'Ann', 1)", [(number,) for number in range(start, start + 500)]
            )
        await until(lambda: _seen(seen, 10_000), limit=120)
        assert sorted(event.data["key"]["id"] for event in seen) == list(range(10_000))
        await until(lambda: _none_wait(shop))
        assert reading.state == "reading"
        assert (await the_source(runtime)).taken == 10_000


async def _seen(seen: list[Event], count: int) -> bool:
    return len(seen) >= count


async def _none_wait(shop: Shop) -> bool:
    return await waiting(shop) == 0


async def _installed(shop: Shop) -> bool:
    if shop.database == "sqlite":
        return bool(await shop.do("select 1 from sqlite_master where type = 'trigger'"))
    return bool(await shop.do("select 1 from pg_trigger where tgname like 'wakeful%'"))


async def test_each_app_has_changes_of_its_own(new_app: NewApp, shop: Shop):
    mine: list[Event] = []
    yours: list[Event] = []
    async with (
        working(watching(new_app, mine, shop.changes(), name="mine"), reading="drained") as first,
        working(watching(new_app, yours, shop.changes(), name="yours"), reading="drained") as second,
    ):
        await first.drain()
        await second.drain()
        await shop.do("insert into orders values (1, 'Ann', 1)")
        await first.drain()
        assert (len(mine), len(yours)) == (1, 0)
        await second.drain()
        assert (len(mine), len(yours)) == (1, 1)


async def test_a_table_that_nobody_wants_any_more_fills_nothing(new_app: NewApp, shop: Shop):
    seen: list[Event] = []
    await shop.do("create table parcels (id integer primary key)")
    async with working(
        watching(new_app, seen, shop.changes(), shop.changes(table="parcels")), reading="drained"
    ) as runtime:
        await runtime.drain()
    async with working(watching(new_app, seen, shop.changes(table="parcels")), reading="drained") as runtime:
        await runtime.drain()
        await shop.do("insert into orders values (1, 'Ann', 1)")
        assert await waiting(shop) == 0
        await shop.do("insert into parcels values (1)")
        await runtime.drain()
        assert [event.type for event in seen] == [f"{shop.database}.parcels.insert"]


async def test_a_table_that_is_missing_is_an_alarm_until_it_is_there(new_app: NewApp, shop: Shop):
    seen: list[Event] = []
    trigger = shop.changes(table="order")
    app = watching(new_app, seen, trigger, clock=None)
    (problem,) = await trigger.problems()
    assert 'there is no table order. Did you mean "orders"?' in problem
    async with working(app) as runtime:
        await until(lambda: _in_state(runtime, "failing"))
        (alarm,) = (await runtime.reader.alarms())["alarms"]
        assert "there is no table order" in alarm["text"]
        assert "\n" not in alarm["text"]
        await shop.do('create table "order" (id integer primary key)')
        await until(lambda: _in_state(runtime, "reading"))
        await shop.do('insert into "order" values (1)')
        await until(lambda: _seen(seen, 1))
        assert await trigger.problems() == []


async def _in_state(runtime: Runtime, state: str) -> bool:
    return (await the_source(runtime)).state == state


async def test_one_table_that_is_missing_does_not_stop_the_others(new_app: NewApp, shop: Shop):
    seen: list[Event] = []
    app = watching(new_app, seen, shop.changes(), shop.changes(table="parcels"))
    async with working(app, reading="drained") as runtime:
        await runtime.drain()
        await shop.do("insert into orders values (1, 'Ann', 1)")
        await runtime.drain()
        assert len(seen) == 1
        (alarm,) = (await runtime.reader.alarms())["alarms"]
        assert "there is no table parcels" in alarm["text"]


async def test_a_column_that_is_missing_is_said(new_app: NewApp, shop: Shop):
    trigger = shop.changes(columns=["totl"])
    (problem,) = await trigger.problems()
    assert 'table orders has no column "totl". Did you mean "total"?' in problem
    async with working(watching(new_app, [], trigger), reading="drained") as runtime:
        await runtime.drain()
        assert 'has no column "totl"' in str((await the_source(runtime)).error)


async def test_what_a_table_tells_is_kept_while_it_cannot_be_read(new_app: NewApp, shop: Shop):
    """Also what was written before, and when the next version of the app has a mistake in it, or a migration is half done."""
    seen: list[Event] = []
    await shop.do("create table parcels (id integer primary key)")
    good, other = shop.changes(columns=["total"]), shop.changes(table="parcels")
    async with working(watching(new_app, seen, good, other), reading="drained") as runtime:
        await runtime.drain()
    await shop.do("insert into orders values (1, 'Ann', 1)")
    async with working(watching(new_app, seen, shop.changes(columns=["totl"]), other), reading="drained") as runtime:
        await runtime.drain()
        (alarm,) = (await runtime.reader.alarms())["alarms"]
        assert 'has no column "totl"' in alarm["text"]
        await shop.do("insert into orders values (2, 'Bea', 2)")
        await shop.do("insert into parcels values (7)")
        await runtime.drain()
        assert [event.subject for event in seen] == ["parcels/7"]
    async with working(watching(new_app, seen, good, other), reading="drained") as runtime:
        await runtime.drain()
        await runtime.drain()
        assert sorted(str(event.subject) for event in seen) == ["orders/1", "orders/2", "parcels/7"]
    assert await shop.do("select table_name from wakeful_change") == []


async def test_a_view_cannot_be_watched(shop: Shop):
    await shop.do("create view dear as select * from orders where total > 100")
    (problem,) = await shop.changes(table="dear").problems()
    assert "name the table that is written to" in problem


async def test_a_change_that_cannot_be_told_is_kept_and_told_after_a_fix(new_app: NewApp, shop: Shop):
    seen: list[Event] = []
    broken = True

    def price(data: Any) -> Any:
        if broken and data["new"]["customer"] == "odd":
            message = "cannot be told"
            raise ValueError(message)
        return {"price": data["new"]["total"]}

    async with working(watching(new_app, seen, shop.changes(data=price)), reading="drained") as runtime:
        await runtime.drain()
        await shop.do("insert into orders values (1, 'odd', 1), (2, 'even', 2)")
        await runtime.drain()
        assert [event.data for event in seen] == [{"price": 2.0}]
        (kept,) = (await runtime.reader.events(state="quarantined", limit=10))["events"]
        assert "cannot be told" in kept["reason"]
        broken = False
        (reading,) = runtime.sources.readings.values()
        found = await find_source(runtime.store.database, "app", reading.reader.name)
        assert found is not None
        assert found.quarantined == 1


async def test_the_mark_of_whoever_wrote_comes_along(new_app: NewApp, shop: Shop, monkeypatch: Any):
    causes: list[str | None] = []
    async with working(watching(new_app, [], shop.changes()), reading="drained") as runtime:
        await runtime.drain()
        (reading,) = runtime.sources.readings.values()
        telling = reading.reader._row_events  # type: ignore[attr-defined]  # no event shows it yet
        tell = telling.tell

        def told(change: RowChange, batch: Batch) -> None:
            causes.append(change.cause)
            tell(change, batch)

        monkeypatch.setattr(telling, "tell", told)
        if shop.database == "sqlite":
            await shop.do("begin")
            await shop.do("insert into wakeful_cause values ('run 7')")
            await shop.do("insert into orders values (1, 'Ann', 1)")
            await shop.do("delete from wakeful_cause")
            await shop.do("commit")
        else:
            async with shop.connection.transaction():  # type: ignore[attr-defined]
                await shop.do("select set_config('wakeful.cause', 'run 7', true)")
                await shop.do("insert into orders values (1, 'Ann', 1)")
        await shop.do("insert into orders values (2, 'Bea', 1)")
        await runtime.drain()
        assert causes == ["run 7", None]


async def test_one_process_reads_and_the_next_one_goes_on(new_app: NewApp, shop: Shop):
    seen: list[Event] = []
    async with working(watching(new_app, seen, shop.changes()), reading="drained") as first:
        await first.drain()
        async with working(watching(new_app, seen, shop.changes()), reading="drained") as second:
            await shop.do("insert into orders values (1, 'Ann', 1)")
            await second.drain()
            assert seen == []
            await first.sources.stop()
            await second.drain()
            assert len(seen) == 1


async def test_a_change_wakes_its_agent_by_itself(new_app: NewApp, shop: Shop):
    seen: list[Event] = []
    async with working(watching(new_app, seen, shop.changes(), clock=None)) as runtime:
        await until(lambda: _installed(shop))
        await shop.do("insert into orders values (1, 'Ann', 1)")
        await until(lambda: _seen(seen, 1))
        await until(lambda: _none_wait(shop))
        await asyncio.wait_for(runtime.sources.stop(), 10)
