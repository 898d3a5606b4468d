"""Rows that change in somebody's PostgreSQL become events, through logical replication. The store is each of both."""

from __future__ import annotations

import asyncio
from typing import Any

from support.apps import NewApp, working
from support.shop import Shop
from wakeful import App, Run, postgres_changes
from wakeful.runtime import Runtime
from wakeful.stores.verbs.sources import find_source

Seen = list[dict[str, Any]]


def an_app(new_app: NewApp, shop: Shop, seen: Seen, name: str = "app", **options: Any) -> App:
    """An app that hears of `orders`, and notes what it heard."""
    app = new_app(name)
    options.setdefault("table", "orders")

    @app.agent(postgres_changes(shop.dsn, **options))
    async def note(run: Run) -> None:
        seen.append({**run.event.data, "id": run.event.id, "type": run.event.type, "subject": run.event.subject})

    return app


def told(seen: Seen) -> list[tuple[str, Any, Any]]:
    """What was heard, in the order of the log: runs start in any order."""
    return [(one["operation"], one["new"], one["old"]) for one in sorted(seen, key=position)]


def position(one: dict[str, Any]) -> tuple[int, int]:
    lsn, _, index = one["id"].partition("-")[2].partition("/")
    return int(lsn, 16), int(index)


async def the_source(runtime: Runtime) -> Any:
    (found,) = await runtime.database.fetch("sources_of_app", runtime.app.name)
    return await find_source(runtime.store.database, runtime.app.name, found[1])


async def test_changes_become_events_and_rows_that_were_there_do_not(new_app: NewApp, shop: Shop):
    await shop.execute("insert into orders values (1, 'old', 1)")
    seen: Seen = []
    async with working(an_app(new_app, shop, seen), reading="drained") as runtime:
        await runtime.drain()
        await shop.execute(
            "insert into orders values (2, 'new', 10.5)",
            "update orders set status = 'paid' where id = 1",
            "update orders set id = 3 where id = 2",
            "delete from orders where id = 3",
        )
        await runtime.drain()
    assert told(seen) == [
        ("insert", {"id": 2, "status": "new", "total": 10.5}, None),
        ("update", {"id": 1, "status": "paid", "total": 1}, None),
        ("update", {"id": 3, "status": "new", "total": 10.5}, {"id": 2}),
        ("delete", None, {"id": 3}),
    ]
    first = min(seen, key=position)
    assert (first["type"], first["subject"], first["key"]) == ("postgres.orders.insert", "orders/2", {"id": 2})
    assert all(one["changed"] is None for one in seen)


async def test_the_whole_old_row_with_replica_identity_full(new_app: NewApp, shop: Shop):
    await shop.execute("alter table orders replica identity full", "alter table orders add column story text")
    await shop.execute("alter table orders alter column story set storage external")
    seen: Seen = []
    async with working(an_app(new_app, shop, seen), reading="drained") as runtime:
        await runtime.drain()
        await shop.execute(
            "insert into orders values (1, 'new', 1, repeat('x', 9000))",
            "update orders set status = 'paid'",
            "delete from orders",
        )
        await runtime.drain()
    _, update, delete = sorted(seen, key=position)
    assert update["changed"] == ["status"]
    assert (update["old"]["status"], update["new"]["status"]) == ("new", "paid")
    assert update["new"]["story"] == "x" * 9000  # it was not sent again
    assert (delete["key"], delete["old"]["status"]) == ({"id": 1}, "paid")


async def test_a_large_value_that_did_not_change_is_left_out(new_app: NewApp, shop: Shop):
    await shop.execute("alter table orders add column story text")
    await shop.execute("alter table orders alter column story set storage external")
    seen: Seen = []
    async with working(an_app(new_app, shop, seen), reading="drained") as runtime:
        await runtime.drain()
        await shop.execute("insert into orders values (1, 'new', 1, repeat('x', 9000))")
        await shop.execute("update orders set status = 'paid'")
        await runtime.drain()
    assert sorted(seen, key=position)[1]["new"] == {"id": 1, "status": "paid", "total": 1}


async def test_operations_columns_and_conditions_choose(new_app: NewApp, shop: Shop):
    await shop.execute("alter table orders replica identity full")
    app = new_app()
    seen: dict[str, list[Any]] = {"inserted": [], "status": [], "large": []}

    @app.agent(postgres_changes(shop.dsn, table="orders", operations="insert"))
    async def inserted(run: Run) -> None:
        seen["inserted"].append(run.event.data["new"]["id"])

    @app.agent(postgres_changes(shop.dsn, table="orders", operations=["update"], columns=["status"]))
    async def status(run: Run) -> None:
        seen["status"].append((run.event.data["new"], run.event.data["changed"]))

    @app.agent(postgres_changes(shop.dsn, table="public.orders", where="data.new.total > 100", data="data.new.total"))
    async def large(run: Run) -> None:
        seen["large"].append(run.event.data)

    async with working(app, reading="drained") as runtime:
        await runtime.drain()
        await shop.execute(
            "insert into orders values (1, 'new', 5), (2, 'new', 500)",
            "update orders set total = total + 1",
            "update orders set status = 'paid', total = 7 where id = 1",
            "delete from orders",
        )
        await runtime.drain()
        slots = await shop.value("select count(*) from pg_replication_slots where database = current_database()")
    assert sorted(seen["inserted"]) == [1, 2]
    assert seen["status"] == [({"status": "paid"}, ["status"])]
    assert seen["large"] == []  # the condition is asked of what `data=` made: there is no `new` in that
    assert slots == 1


async def test_a_table_that_is_altered_is_read_on(new_app: NewApp, shop: Shop):
    seen: Seen = []
    async with working(an_app(new_app, shop, seen), reading="drained") as runtime:
        await runtime.drain()
        await shop.execute(
            "insert into orders values (1, 'new', 1)",
            "alter table orders add column flag boolean not null default true",
            "insert into orders values (2, 'new', 1)",
            "alter table orders drop column total",
            "alter table orders rename column status to state",
            "insert into orders values (3, 'new', false)",
        )
        await runtime.drain()
    assert [new for _, new, _ in told(seen)] == [
        {"id": 1, "status": "new", "total": 1},
        {"id": 2, "status": "new", "total": 1, "flag": True},
        {"id": 3, "state": "new", "flag": False},
    ]


async def test_what_changed_while_nobody_read_comes_after_a_restart_once(new_app: NewApp, shop: Shop):
    seen: Seen = []
    async with working(an_app(new_app, shop, seen), reading="drained") as runtime:
        await runtime.drain()
    await shop.execute("insert into orders select n, 'new', n from generate_series(1, 50) n")
    for _ in range(2):
        async with working(an_app(new_app, shop, seen), reading="drained") as runtime:
            await runtime.drain()
            assert sorted(one["new"]["id"] for one in seen) == list(range(1, 51))
            assert (await the_source(runtime)).repeated == 0


async def test_a_slot_that_stands_behind_the_cursor_repeats_nothing(new_app: NewApp, shop: Shop):
    """As after a death between our commit and the confirmation."""
    seen: Seen = []
    app = an_app(new_app, shop, seen)
    async with working(app, reading="drained") as runtime:
        await runtime.drain()
        (reading,) = runtime.sources.readings.values()
        reader: Any = reading.reader
        reader.acknowledge = lambda batch: asyncio.sleep(0)  # it is never told
        await shop.execute(*(f"insert into orders values ({n}, 'new', 1)" for n in range(5)))
        await runtime.drain()
        confirmed = await shop.value(
            "select confirmed_flush_lsn::text from pg_replication_slots where database = current_database()"
        )
    async with working(an_app(new_app, shop, seen), reading="drained") as runtime:
        await shop.execute("insert into orders values (9, 'new', 1)")
        await runtime.drain()
        found = await the_source(runtime)
        assert found.repeated == 0
    assert confirmed
    assert sorted(one["new"]["id"] for one in seen) == [0, 1, 2, 3, 4, 9]


async def test_a_truncated_table_is_no_event_and_reading_goes_on(new_app: NewApp, shop: Shop):
    seen: Seen = []
    async with working(an_app(new_app, shop, seen), reading="drained") as runtime:
        await runtime.drain()
        await shop.execute(
            "insert into orders values (1, 'new', 1)", "truncate orders", "insert into orders values (2, 'a', 1)"
        )
        await runtime.drain()
    assert [new["id"] for _, new, _ in told(seen)] == [1, 2]


async def test_a_reader_that_is_paused_lets_go_and_goes_on_later(new_app: NewApp, shop: Shop, monkeypatch: Any):
    monkeypatch.setattr("wakeful.connect.postgres.reader.PARK_AFTER", 0.05)
    monkeypatch.setattr("wakeful.connect.postgres.reader.MOST", 2)
    used = "select count(*) from pg_replication_slots where database = current_database() and active"
    seen: Seen = []
    async with working(an_app(new_app, shop, seen), reading="drained") as runtime:
        await runtime.drain()
        await shop.execute("insert into orders select n, 'new', n from generate_series(1, 20) n")
        async with asyncio.timeout(60):
            while await shop.value(used):
                await asyncio.sleep(0.01)
        await shop.execute("insert into orders values (21, 'new', 1)")
        await runtime.drain()
        assert (await the_source(runtime)).repeated == 0
    assert sorted(one["new"]["id"] for one in seen) == list(range(1, 22))


async def test_rows_by_themselves_as_they_come(new_app: NewApp, shop: Shop):
    """Not drained: the source is read all the time."""
    app, seen = new_app(clock=None), asyncio.Queue[int]()

    @app.agent(postgres_changes(shop.dsn, table="orders"))
    async def note(run: Run) -> None:
        seen.put_nowait(run.event.data["new"]["id"])

    async with working(app) as runtime, asyncio.timeout(30):
        while (await the_source(runtime)).state != "reading":
            await asyncio.sleep(0.01)
        for number in range(3):
            await shop.execute(f"insert into orders values ({number}, 'new', 1)")
            assert await seen.get() == number
