"""What only PostgreSQL has: transactions that end late, roles without rights, types, partitions, and a server that goes away."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import asyncpg
import pytest

from support.apps import NewApp, working
from support.shops import ORDERS, PostgresShop, until
from wakeful import App, ConfigError, Event, Run, env, postgres_changes
from wakeful.connect.postgres.table import removal
from wakeful.connect.postgres.table_reader import TableReader
from wakeful.runtime import Runtime
from wakeful.stores.verbs.sources import find_source
from wakeful.testing.postgres_server import PostgresServer

pytestmark = pytest.mark.postgres


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


async def test_a_transaction_that_commits_late_under_a_lower_number_is_not_lost(
    new_app: NewApp, postgres_shop: PostgresShop
):
    seen: list[Event] = []
    async with working(watching(new_app, seen, postgres_shop.changes()), reading="drained") as runtime:
        await runtime.drain()
        late = await asyncpg.connect(postgres_shop.url)
        transaction = late.transaction()
        await transaction.start()
        await late.execute("insert into orders values (1, 'late', 1)")
        await postgres_shop.do("insert into orders values (2, 'early', 1)")
        await runtime.drain()
        assert seen == []  # what an older transaction may still come before waits for it
        await transaction.commit()
        await postgres_shop.do("insert into orders values (3, 'after', 1)")
        await runtime.drain()
        assert sorted(event.data["key"]["id"] for event in seen) == [1, 2, 3]
        await late.close()


async def test_a_transaction_that_is_rolled_back_tells_nothing_and_holds_nothing_up(
    new_app: NewApp, postgres_shop: PostgresShop
):
    seen: list[Event] = []
    async with working(watching(new_app, seen, postgres_shop.changes()), reading="drained") as runtime:
        await runtime.drain()
        transaction = postgres_shop.connection.transaction()
        await transaction.start()
        await postgres_shop.do("insert into orders values (1, 'no', 1)")
        await transaction.rollback()
        await postgres_shop.do("insert into orders values (2, 'yes', 1)")
        await runtime.drain()
        assert [event.data["key"]["id"] for event in seen] == [2]


async def test_changes_of_one_row_come_in_the_order_in_which_they_were_made(
    new_app: NewApp, postgres_shop: PostgresShop
):
    """The transaction that began first changes the row last."""
    app = new_app()
    order: list[str] = []

    @app.agent(postgres_shop.changes(operations="update"), key="data.key.id")
    async def note(run: Run) -> None:
        order.append(run.event.data["new"]["customer"])

    await postgres_shop.do("insert into orders values (1, 'none', 0), (2, 'none', 0)")
    async with working(app, reading="drained") as runtime:
        await runtime.drain()
        first = await asyncpg.connect(postgres_shop.url)
        transaction = first.transaction()
        await transaction.start()
        await first.execute("update orders set total = 1 where id = 2")  # it has its number now
        await postgres_shop.do("update orders set customer = 'second' where id = 1")
        await first.execute("update orders set customer = 'first' where id = 1")
        await transaction.commit()
        await first.close()
        await runtime.drain()
        assert [name for name in order if name != "none"] == ["second", "first"]


@pytest.mark.slow
async def test_ten_thousand_rows_of_many_writers_with_long_and_short_transactions(
    new_app: NewApp, postgres_shop: PostgresShop
):
    seen: list[Event] = []
    app = watching(new_app, seen, postgres_shop.changes(operations="insert"), clock=None, backlog=None)
    async with working(app):
        await until(lambda: postgres_shop.do("select 1 from pg_trigger where tgname = 'wakeful_app'"))

        async def write(writer: int) -> None:
            chance = random.Random(writer)
            connection = await asyncpg.connect(postgres_shop.url)
            number = writer * 1_250
            while number < (writer + 1) * 1_250:
                many = min(chance.choice([1, 5, 40, 200]), (writer + 1) * 1_250 - number)
                async with connection.transaction():
                    for one in range(number, number + many):
                        await connection.execute("insert into orders values ($1, 'Ann', 1)", one)
                        if chance.random() < 0.02:
                            await asyncio.sleep(0.005)  # so that others overtake it
                number += many
            await connection.close()

        await asyncio.gather(*(write(writer) for writer in range(8)))

        async def all_seen() -> bool:
            return len(seen) >= 10_000

        await until(all_seen, limit=120)
        assert sorted(event.data["key"]["id"] for event in seen) == list(range(10_000))


async def test_types(new_app: NewApp, postgres_shop: PostgresShop):
    seen: list[Event] = []
    await postgres_shop.do(
        "create table sorts (id uuid primary key, flag boolean, big bigint, exact numeric, price numeric, ratio float8, "
        "odd float8, raw bytea, document jsonb, told timestamptz, day date, span interval, names text[], loose json)"
    )
    async with working(watching(new_app, seen, postgres_shop.changes(table="sorts")), reading="drained") as runtime:
        await runtime.drain()
        await postgres_shop.do("set timezone = 'Asia/Tokyo'")
        await postgres_shop.do(
            "insert into sorts values ('0b9e63a8-3c37-4d2c-9a3a-0e4b16c5a1f0', true, 9223372036854775807, "
            "12345678901234567890.123456789, 12.50, 0.30000000000000004, 'NaN', '\\x00ff', '{\"a\": [1, null]}', "
            "'2026-03-01 08:30:00.5+00', '2026-03-01', '1 day 2 hours', array['a', null, 'b'], '{\"b\": 1e2}')"
        )
        await runtime.drain()
        assert seen[0].data["new"] == {
            "id": "0b9e63a8-3c37-4d2c-9a3a-0e4b16c5a1f0",
            "flag": True,
            "big": 9223372036854775807,
            "exact": "12345678901234567890.123456789",
            "price": 12.5,
            "ratio": 0.30000000000000004,
            "odd": "NaN",
            "raw": "AP8=",
            "document": {"a": [1, None]},
            "told": "2026-03-01T08:30:00.5+00:00",
            "day": "2026-03-01",
            "span": "P1DT2H",
            "names": ["a", None, "b"],
            "loose": {"b": 100.0},
        }


async def test_a_document_that_no_event_may_hold_is_kept_and_the_others_go_on(
    new_app: NewApp, postgres_shop: PostgresShop
):
    seen: list[Event] = []
    await postgres_shop.do("create table notes (id integer primary key, body json)")
    async with working(watching(new_app, seen, postgres_shop.changes(table="notes")), reading="drained") as runtime:
        await runtime.drain()
        await postgres_shop.do("""insert into notes values (1, '{"a": "\\u0000"}'), (2, '{"a": "b"}')""")
        await runtime.drain()
        assert [event.data["key"]["id"] for event in seen] == [2]
        (kept,) = (await runtime.reader.events(state="quarantined", limit=10))["events"]
        assert "NUL" in kept["reason"]
        assert await postgres_shop.do("select * from wakeful_change") == []


async def test_a_table_without_a_key_and_one_with_partitions(new_app: NewApp, postgres_shop: PostgresShop):
    seen: list[Event] = []
    await postgres_shop.do("create schema sales")
    await postgres_shop.do("create table sales.log (line text)")
    await postgres_shop.do("create table parts (id int, place text, primary key (id, place)) partition by list (place)")
    await postgres_shop.do("create table parts_here partition of parts for values in ('here')")
    triggers = [postgres_shop.changes(table="sales.log"), postgres_shop.changes(table="parts")]
    async with working(watching(new_app, seen, *triggers), reading="drained") as runtime:
        await runtime.drain()
        await postgres_shop.do("create table parts_there partition of parts for values in ('there')")
        await postgres_shop.do("insert into sales.log values ('a')")
        await postgres_shop.do("insert into parts values (1, 'here'), (2, 'there')")
        await runtime.drain()
        told = sorted((event.type, str(event.data["key"])) for event in seen)
        assert told == [
            ("postgres.parts.insert", "{'id': 1, 'place': 'here'}"),
            ("postgres.parts.insert", "{'id': 2, 'place': 'there'}"),
            ("postgres.sales.log.insert", "{}"),
        ]
        await runtime.drain()
        again = await postgres_shop.do("select count(*) from pg_trigger where tgname = 'wakeful_app'")
        assert again == [(4,)]  # the two tables and both partitions


async def a_role(shop: PostgresShop, name: str) -> str:
    """The address for a role that may read the orders, and nothing else. Roles are the server's, not the database's."""
    await shop.do(f"create role {name} login password 'secret'")
    await shop.do(f"grant select, insert on orders to {name}")
    host = shop.url.rpartition("@")[2]
    return f"postgresql://{name}:secret@{host}"


async def test_a_role_without_rights_is_told_what_to_run_and_then_it_works(
    new_app: NewApp, postgres_shop: PostgresShop
):
    seen: list[Event] = []
    role = f"reader_{random.getrandbits(40):x}"
    url = await a_role(postgres_shop, role)
    trigger = postgres_changes(url, via="triggers", table="orders")
    try:
        assert f"role {role} may not create a trigger on table orders: GRANT TRIGGER" in (await trigger.problems())[0]
        async with working(watching(new_app, seen, trigger), reading="drained") as runtime:
            await runtime.drain()
            error = await error_of(runtime)
            assert f"role {role} may not create the change table and triggers" in error
            assert "\n" not in error
            assert "secret" not in error
            await postgres_shop.connection.execute(error.partition("run this once: ")[2])
            await runtime.drain()
            # Who writes needs no right on the change table.
            writer = await asyncpg.connect(url)
            await writer.execute("insert into orders values (1, 'Ann', 1)")
            await writer.close()
            await runtime.drain()
            assert [event.data["key"]["id"] for event in seen] == [1]
            assert await trigger.problems() == []
            await runtime.drain()
            assert await postgres_shop.do("select * from wakeful_change") == []
    finally:
        await postgres_shop.do(f"drop owned by {role}")
        await postgres_shop.do(f"drop role {role}")


async def alarms(runtime: Runtime) -> list[str]:
    return [one["text"] for one in (await runtime.reader.alarms())["alarms"] if one["state"] != "resolved"]


async def test_a_trigger_that_somebody_disables_is_said_and_the_others_go_on(
    new_app: NewApp, postgres_shop: PostgresShop, monkeypatch: Any
):
    monkeypatch.setattr(TableReader, "look_every", 0.0)
    seen: list[Event] = []
    await postgres_shop.do("create table parcels (id integer primary key)")
    app = watching(new_app, seen, postgres_shop.changes(), postgres_shop.changes(table="parcels"))
    async with working(app, reading="drained") as runtime:
        await runtime.drain()
        await postgres_shop.do("insert into orders values (1, 'Ann', 1)")
        await postgres_shop.do("alter table orders disable trigger wakeful_app")
        await postgres_shop.do("insert into parcels values (7)")
        await runtime.drain()
        await runtime.drain()
        assert sorted(str(event.subject) for event in seen) == ["orders/1", "parcels/7"]
        (words,) = await alarms(runtime)
        assert 'ALTER TABLE "public"."orders" ENABLE TRIGGER "wakeful_app"' in words
        await postgres_shop.do('ALTER TABLE "public"."orders" ENABLE TRIGGER "wakeful_app"')
        await runtime.drain()
        await runtime.drain()
        assert await alarms(runtime) == []


async def test_a_table_that_is_dropped_and_made_anew_is_watched_again(
    new_app: NewApp, postgres_shop: PostgresShop, monkeypatch: Any
):
    monkeypatch.setattr(TableReader, "look_every", 0.0)
    seen: list[Event] = []
    await postgres_shop.do("create table parcels (id integer primary key)")
    app = watching(new_app, seen, postgres_shop.changes(), postgres_shop.changes(table="parcels"))
    async with working(app, reading="drained") as runtime:
        await runtime.drain()
        await postgres_shop.do("insert into orders values (1, 'Ann', 1)")
        await postgres_shop.do("drop table orders")
        await runtime.drain()
        await runtime.drain()
        (words,) = await alarms(runtime)
        assert "there is no table orders" in words
        await postgres_shop.do(ORDERS.format(real="double precision"))
        await runtime.drain()
        await postgres_shop.do("insert into orders values (2, 'Bea', 1)")
        await runtime.drain()
        await runtime.drain()
        assert sorted(event.data["key"]["id"] for event in seen) == [1, 2]
        assert await alarms(runtime) == []


async def test_a_transaction_that_is_open_for_long_is_an_alarm_that_says_whose_it_is(
    new_app: NewApp, postgres_shop: PostgresShop, monkeypatch: Any
):
    monkeypatch.setattr(TableReader, "look_every", 0.0)
    monkeypatch.setattr(TableReader, "held_up_after", 0.0)
    seen: list[Event] = []
    async with working(watching(new_app, seen, postgres_shop.changes()), reading="drained") as runtime:
        await runtime.drain()
        late = await asyncpg.connect(postgres_shop.url, server_settings={"application_name": "night report"})
        transaction = late.transaction()
        await transaction.start()
        await late.execute("create temporary table report (line text)")
        await postgres_shop.do("insert into orders values (1, 'Ann', 1)")
        await runtime.drain()
        await runtime.drain()
        (words,) = await alarms(runtime)
        assert "1 changes cannot be read before a long-running transaction ends" in words
        assert (
            f"(application 'night report', role postgres): end it there, or SELECT pg_terminate_backend({late.get_server_pid()})"
            in words
        )
        await transaction.rollback()
        await late.close()
        await runtime.drain()
        await runtime.drain()
        assert (len(seen), await alarms(runtime)) == (1, [])


async def test_a_table_in_use_delays_its_trigger_and_not_the_application(new_app: NewApp, postgres_shop: PostgresShop):
    seen: list[Event] = []
    transaction = postgres_shop.connection.transaction()
    await transaction.start()
    await postgres_shop.do("insert into orders values (1, 'Ann', 1)")
    async with working(watching(new_app, seen, postgres_shop.changes()), reading="drained") as runtime:
        await runtime.drain()
        assert "in use by a long transaction" in await error_of(runtime)
        await transaction.commit()
        await runtime.drain()
        await postgres_shop.do("insert into orders values (2, 'Bea', 1)")
        await runtime.drain()
        assert [event.data["key"]["id"] for event in seen] == [2]


async def test_removal_leaves_the_database_as_it_was(new_app: NewApp, postgres_shop: PostgresShop):
    async with working(watching(new_app, [], postgres_shop.changes()), reading="drained") as runtime:
        await runtime.drain()
    for step in await removal(postgres_shop.connection, "app"):
        await postgres_shop.do(step)
    assert await postgres_shop.do("select relname from pg_class where relname like 'wakeful%'") == []
    assert await postgres_shop.do("select proname from pg_proc where proname like 'wakeful%'") == []
    assert await postgres_shop.do("select tgname from pg_trigger where tgname like 'wakeful%'") == []


async def test_rows_that_came_with_a_restored_dump_are_read(new_app: NewApp, postgres_shop: PostgresShop):
    """Their transactions have numbers that this server has not reached."""
    seen: list[Event] = []
    async with working(watching(new_app, seen, postgres_shop.changes()), reading="drained") as runtime:
        await runtime.drain()
        await postgres_shop.do("insert into orders values (1, 'Ann', 1)")
        await postgres_shop.do("update wakeful_change set transaction_id = '123456789012'")
        await runtime.drain()
        assert [event.data["key"]["id"] for event in seen] == [1]


@pytest.mark.parametrize("crash", [False, True])
async def test_a_server_that_goes_away_is_an_alarm_and_is_read_again(new_app: NewApp, crash: bool):
    seen: list[Event] = []
    with PostgresServer(fsync=False) as server:
        url = server.dsn()
        connection = await asyncpg.connect(url)
        await connection.execute(ORDERS.format(real="double precision"))
        async with working(
            watching(new_app, seen, postgres_changes(url, via="triggers", table="orders"), clock=None)
        ) as runtime:

            async def in_state(state: str) -> bool:
                (name,) = runtime.sources.readings
                found = await find_source(runtime.store.database, "app", name)
                return found is not None and found.state == state

            await until(lambda: in_state("reading"))
            await connection.execute("insert into orders values (1, 'Ann', 1)")
            await connection.close()
            server.kill() if crash else server.stop()
            await until(lambda: in_state("failing"))
            assert "cannot be reached" in await error_of(runtime)
            await runtime.app.emit("others.go.on")
            server.start()
            connection = await asyncpg.connect(url)
            await connection.execute("insert into orders values (2, 'Bea', 1)")
            await connection.close()

            async def both() -> bool:
                return {event.data["key"]["id"] for event in seen} == {1, 2}

            await until(both, limit=60)
            assert len(seen) == 2
            await until(lambda: in_state("reading"), limit=60)


async def test_a_database_that_is_down_at_the_start_is_waited_for(new_app: NewApp):
    trigger = postgres_changes("postgresql://somebody:secret@127.0.0.1:1/shop", via="triggers", table="orders")
    (problem,) = await trigger.problems()
    assert "cannot be reached" in problem
    assert "secret" not in problem
    async with working(watching(new_app, [], trigger), reading="drained") as runtime:
        await runtime.drain()
        assert "cannot be reached" in await error_of(runtime)


def test_what_is_declared_wrong_is_refused():
    with pytest.raises(ConfigError, match="the address must be postgresql://") as refused:
        postgres_changes("mysql://me:secret@host/shop", via="triggers", table="orders")
    assert "secret" not in str(refused.value)
    with pytest.raises(ConfigError, match="name of a table"):
        postgres_changes("postgresql://host/shop", via="triggers", table="")


async def test_an_address_in_the_environment_is_told_by_its_name(
    new_app: NewApp, postgres_shop: PostgresShop, monkeypatch: Any
):
    seen: list[Event] = []
    trigger = postgres_changes(env("SHOP_DATABASE"), via="triggers", table="public.orders")
    assert "SHOP_DATABASE is not set" in (await trigger.problems())[0]
    async with working(watching(new_app, seen, trigger), reading="drained") as runtime:
        await runtime.drain()
        assert "SHOP_DATABASE is not set" in await error_of(runtime)
        monkeypatch.setenv("SHOP_DATABASE", postgres_shop.url)
        await runtime.drain()
        await postgres_shop.do("insert into orders values (1, 'Ann', 1)")
        await runtime.drain()
        assert [event.source for event in seen] == ["/postgres/SHOP_DATABASE/orders"]
