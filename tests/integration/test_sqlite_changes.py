"""What only SQLite has: a file that may be missing, locked, replaced, or the store itself; rowids, blobs, and tables that are rebuilt."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from support.apps import NewApp, working
from support.shops import SqliteShop, until
from wakeful import App, ConfigError, Event, Run, sqlite_changes
from wakeful.connect.sqlite import reader as sqlite_reader
from wakeful.connect.sqlite.file import File
from wakeful.connect.sqlite.table import removal
from wakeful.runtime import Runtime
from wakeful.stores.verbs.sources import find_source


def watching(new_app: NewApp, seen: list[Event], *triggers: Any, **options: Any) -> App:
    app = new_app(**options)

    @app.agent(*triggers)
    async def note(run: Run) -> None:
        seen.append(run.event)

    return app


async def error_of(runtime: Runtime) -> str:
    (name,) = runtime.sources.readings
    found = await find_source(runtime.store.database, "app", name)
    assert found is not None
    return str(found.error)


async def test_a_row_of_a_table_without_a_key_is_known_by_its_rowid(new_app: NewApp, sqlite_shop: SqliteShop):
    seen: list[Event] = []
    await sqlite_shop.do("create table log (line text, rowid text)")
    async with working(watching(new_app, seen, sqlite_shop.changes(table="log")), reading="drained") as runtime:
        await runtime.drain()
        await sqlite_shop.do("insert into log values ('a', 'x')")
        await sqlite_shop.do("insert into log values ('b', 'y')")
        await runtime.drain()
        assert sorted(event.data["key"]["rowid"] for event in seen) == [1, 2]
        assert {event.data["new"]["rowid"] for event in seen} == {"x", "y"}


async def test_a_table_without_rowid_has_its_key_in_order(new_app: NewApp, sqlite_shop: SqliteShop):
    seen: list[Event] = []
    await sqlite_shop.do(
        "create table stock (item text, place text, many int, primary key (place, item)) without rowid"
    )
    async with working(watching(new_app, seen, sqlite_shop.changes(table="stock")), reading="drained") as runtime:
        await runtime.drain()
        await sqlite_shop.do("insert into stock values ('nail', 'shelf', 7)")
        await runtime.drain()
        assert list(seen[0].data["key"].items()) == [("place", "shelf"), ("item", "nail")]
        assert seen[0].subject == "stock/shelf/nail"


async def test_values_arrive_as_they_were_written(new_app: NewApp, sqlite_shop: SqliteShop):
    seen: list[Event] = []
    await sqlite_shop.do('create table "odd ""one" (id text primary key, "the value" any)')
    values: list[Any] = [
        0.1 + 0.2,
        -1e300,
        2**63 - 1,
        -(2**63),
        "it's\n\"é\U0001f600",
        "",
        b"\x00\xff",
        b"",
        None,
        float("inf"),
        1.0,
    ]
    async with working(watching(new_app, seen, sqlite_shop.changes(table='odd "one')), reading="drained") as runtime:
        await runtime.drain()
        for number, value in enumerate(values):
            await sqlite_shop.do('insert into "odd ""one" values ($1, $2)', str(number), value)
        await runtime.drain()
        told = {int(event.data["key"]["id"]): event.data["new"]["the value"] for event in seen}
        assert [told[number] for number in range(len(values))] == [*values[:6], "AP8=", "", None, "Infinity", 1.0]


async def test_text_that_is_no_text_is_kept_and_the_others_go_on(new_app: NewApp, sqlite_shop: SqliteShop):
    seen: list[Event] = []
    async with working(watching(new_app, seen, sqlite_shop.changes()), reading="drained") as runtime:
        await runtime.drain()
        await sqlite_shop.do("insert into orders values (1, cast(x'ff27' as text), 1), (2, 'Bea', 2)")
        await runtime.drain()
        assert [event.data["key"]["id"] for event in seen] == [2]
        (kept,) = (await runtime.reader.events(state="quarantined", limit=10))["events"]
        assert "of wakeful_change is unreadable: 'utf-8' codec" in kept["reason"]
        await runtime.drain()
        assert await sqlite_shop.do("select * from wakeful_change") == []


async def test_a_very_wide_table_with_computed_columns(new_app: NewApp, sqlite_shop: SqliteShop):
    seen: list[Event] = []
    names = [f"c{number}" for number in range(1_500)]
    await sqlite_shop.do(f"create table wide (id integer primary key, {', '.join(names)}, twice as (c1 * 2))")
    async with working(watching(new_app, seen, sqlite_shop.changes(table="wide")), reading="drained") as runtime:
        await runtime.drain()
        await sqlite_shop.do("insert into wide (id, c1, c1499) values (1, 21, 'last')")
        await runtime.drain()
        new = seen[0].data["new"]
        assert (new["twice"], new["c1499"], new["c2"], len(new)) == (42, "last", None, 1_502)


async def test_a_table_that_is_rebuilt_is_watched_again(new_app: NewApp, sqlite_shop: SqliteShop):
    seen: list[Event] = []
    await sqlite_shop.do("insert into orders values (1, 'Ann', 1)")
    async with working(watching(new_app, seen, sqlite_shop.changes()), reading="drained") as runtime:
        await runtime.drain()
        for statement in (
            "begin",
            "create table anew (id integer primary key, customer text, total real, note text)",
            "insert into anew select id, customer, total, 'moved' from orders",
            "drop table orders",
            "alter table anew rename to orders",
            "commit",
        ):
            await sqlite_shop.do(statement)
        await runtime.drain()
        assert seen == []
        await sqlite_shop.do("update orders set note = 'seen'")
        await runtime.drain()
        assert seen[0].data["changed"] == ["note"]


async def test_columns_that_are_renamed_are_told_by_their_new_names(new_app: NewApp, sqlite_shop: SqliteShop):
    seen: list[Event] = []
    async with working(watching(new_app, seen, sqlite_shop.changes()), reading="drained") as runtime:
        await runtime.drain()
        await sqlite_shop.do("alter table orders rename column customer to buyer")
        await runtime.drain()
        await sqlite_shop.do("insert into orders values (1, 'Ann', 1)")
        await runtime.drain()
        assert seen[0].data["new"] == {"id": 1, "buyer": "Ann", "total": 1.0}


async def test_a_change_table_that_is_dropped_and_made_again_loses_nothing_new(
    new_app: NewApp, sqlite_shop: SqliteShop
):
    seen: list[Event] = []
    async with working(watching(new_app, seen, sqlite_shop.changes()), reading="drained") as runtime:
        await runtime.drain()
        for number in range(3):
            await sqlite_shop.do("insert into orders values ($1, 'Ann', 1)", number)
        await runtime.drain()
        file = File(sqlite_shop.path)
        for step in removal(file, "app"):
            await sqlite_shop.do(step)
        file.close()
        await runtime.drain()
        await sqlite_shop.do("insert into orders values (7, 'Bea', 1)")
        await runtime.drain()
        assert sorted(event.data["key"]["id"] for event in seen) == [0, 1, 2, 7]


async def test_what_is_there_already_is_not_made_again(new_app: NewApp, sqlite_shop: SqliteShop):
    versions = []
    for _ in range(2):
        async with working(watching(new_app, [], sqlite_shop.changes()), reading="drained") as runtime:
            await runtime.drain()
        versions.append(await sqlite_shop.do("pragma schema_version"))
    assert versions[0] == versions[1]


async def test_removal_leaves_the_file_as_it_was(new_app: NewApp, sqlite_shop: SqliteShop):
    before = await sqlite_shop.do("select name from sqlite_master order by name")
    async with working(watching(new_app, [], sqlite_shop.changes()), reading="drained") as runtime:
        await runtime.drain()
    file = File(sqlite_shop.path)
    steps = removal(file, "app")
    file.close()
    for step in steps:
        await sqlite_shop.do(step)
    left = await sqlite_shop.do("select name from sqlite_master where name <> 'sqlite_sequence' order by name")
    assert left == before


async def test_the_store_itself_can_be_watched(new_app: NewApp, sqlite_url: str):
    path = Path(sqlite_url.removeprefix("sqlite:///"))
    seen: list[Event] = []
    app = App("app", store=sqlite_url)

    @app.agent(sqlite_changes(path, table="orders"))
    async def note(run: Run) -> None:
        seen.append(run.event)

    @app.agent(name="order")
    async def order(run: Run) -> None:
        await run.transaction(write)

    def write(db: Any) -> None:
        db.execute("insert into orders values (1, 'Ann')")

    connection = sqlite3.connect(path)
    connection.execute("create table orders (id integer primary key, customer text)")
    connection.close()
    async with working(app, reading="drained") as runtime:
        await runtime.drain()
        await runtime.door.accept([Event("/test", "1", "go")], agent="order")
        await runtime.drain()
        await runtime.drain()
        assert [event.data["key"] for event in seen] == [{"id": 1}]


async def test_a_file_that_is_not_there_is_said_and_looked_for_again(new_app: NewApp, tmp_path: Path):
    seen: list[Event] = []
    path = tmp_path / "late.db"
    trigger = sqlite_changes(path, table="orders")
    assert "there is no file" in (await trigger.problems())[0]
    async with working(watching(new_app, seen, trigger), reading="drained") as runtime:
        await runtime.drain()
        assert f"there is no file {path}" in await error_of(runtime)
        assert not path.exists()
        shop = SqliteShop(path)
        await runtime.drain()
        await shop.do("insert into orders values (1, 'Ann', 1)")
        await runtime.drain()
        assert len(seen) == 1
        await shop.close()


@pytest.mark.parametrize(
    ("content", "words"), [(b"no database at all, but long enough to be told from one" * 20, "is not a SQLite")]
)
async def test_a_file_that_is_none_of_sqlite_is_said(new_app: NewApp, tmp_path: Path, content: bytes, words: str):
    path = tmp_path / "odd.db"
    path.write_bytes(content)
    trigger = sqlite_changes(path, table="orders")
    assert words in (await trigger.problems())[0]
    async with working(watching(new_app, [], trigger), reading="drained") as runtime:
        await runtime.drain()
        assert words in await error_of(runtime)


async def test_another_file_in_its_place_is_noticed(new_app: NewApp, sqlite_shop: SqliteShop, tmp_path: Path):
    seen: list[Event] = []
    async with working(watching(new_app, seen, sqlite_shop.changes()), reading="drained") as runtime:
        await runtime.drain()
        await sqlite_shop.do("insert into orders values (1, 'Ann', 1)")
        await runtime.drain()
        other = SqliteShop(tmp_path / "other.db")
        await other.do("insert into orders values (1, 'was there', 1)")
        await other.close()
        other.path.replace(sqlite_shop.path)
        await runtime.drain()
        writer = sqlite3.connect(sqlite_shop.path, isolation_level=None)
        writer.execute("insert into orders values (2, 'Bea', 1)")
        writer.close()
        await runtime.drain()
        assert [event.data["new"]["customer"] for event in seen] == ["Ann", "Bea"]


async def test_a_file_that_is_locked_is_read_when_it_is_free(
    new_app: NewApp, sqlite_shop: SqliteShop, monkeypatch: pytest.MonkeyPatch
):
    seen: list[Event] = []
    async with working(watching(new_app, seen, sqlite_shop.changes()), reading="drained") as runtime:
        await runtime.drain()
        await sqlite_shop.do("insert into orders values (1, 'Ann', 1)")
        await sqlite_shop.do("begin exclusive")
        await sqlite_shop.do("insert into orders values (2, 'Bea', 1)")
        await runtime.sources.drain()
        assert seen == []
        monkeypatch.setattr(sqlite_reader, "LOCKED_IS_TROUBLE_AFTER", -1.0)
        await runtime.sources.drain()
        assert "is locked by another process" in await error_of(runtime)
        await sqlite_shop.do("commit")
        await runtime.drain()
        assert sorted(event.data["key"]["id"] for event in seen) == [1, 2]


async def test_an_application_that_writes_all_the_time_is_read_at_the_same_time(
    new_app: NewApp, sqlite_shop: SqliteShop
):
    seen: list[Event] = []
    await sqlite_shop.do("pragma journal_mode = wal")
    async with working(watching(new_app, seen, sqlite_shop.changes(), clock=None)):
        await until(lambda: sqlite_shop.do("select 1 from sqlite_master where type = 'trigger'"))
        writer = sqlite3.connect(sqlite_shop.path, timeout=5, isolation_level=None)
        for number in range(200):
            writer.execute("insert into orders values (?, 'Ann', 1)", (number,))
        writer.close()

        async def all_seen() -> bool:
            return len(seen) == 200

        await until(all_seen)


async def test_replace_tells_of_the_row_that_came_and_not_of_the_one_that_went(
    new_app: NewApp, sqlite_shop: SqliteShop
):
    seen: list[Event] = []
    await sqlite_shop.do("insert into orders values (1, 'Ann', 1)")
    async with working(watching(new_app, seen, sqlite_shop.changes()), reading="drained") as runtime:
        await runtime.drain()
        await sqlite_shop.do("replace into orders values (1, 'Bea', 1)")
        await runtime.drain()
        assert [event.data["operation"] for event in seen] == ["insert"]
        await sqlite_shop.do(
            "insert into orders values (1, 'Cid', 1) on conflict (id) do update set customer = excluded.customer"
        )
        await runtime.drain()
        assert sorted(event.data["operation"] for event in seen) == ["insert", "update"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"path": ""}, "is the path of a SQLite file"),
        ({"path": 7}, "is the path of a SQLite file"),
        ({"path": "mysql://host/shop"}, "mysql:// is not supported here"),
        ({"path": ":memory:"}, "in memory"),
        ({"table": ""}, "name of a table"),
        ({"operations": "upsert"}, 'unknown operation "upsert"'),
        ({"operations": []}, "operations is empty"),
        ({"columns": "total"}, "names of columns"),
        ({"columns": []}, "names of columns"),
        ({"poll": "soon"}, "poll must be a duration"),
        ({"poll": "0s"}, "longer than zero"),
        ({"where": "data."}, "is not a CEL expression"),
        ({"data": 7}, "data must be"),
    ],
)
def test_what_is_declared_wrong_is_refused(options: dict[str, Any], words: str):
    with pytest.raises(ConfigError, match=words):
        sqlite_changes(**{"path": "shop.db", "table": "orders", **options})


def test_a_path_may_be_an_address():
    assert sqlite_changes("sqlite:////srv/shop.db", table="orders").path == Path("/srv/shop.db")
    assert sqlite_changes("sqlite:///shop.db", table="orders").source == "/sqlite/shop.db/orders"
    assert sqlite_changes("./shop.db", table="orders").shared == sqlite_changes("shop.db", table="parcels").shared
