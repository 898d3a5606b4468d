"""What can be wrong with a database whose changes are to be read: each is one clear line with the remedy, and the rest runs on."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from integration.test_postgres_changes import Seen, an_app, the_source
from support.apps import NewApp, working
from support.shop import TABLE, Shop, drop_slots
from wakeful import App, ConfigError, Run, env, postgres_changes
from wakeful.clock import SystemClock
from wakeful.connect.postgres import reader as postgres_reader
from wakeful.connect.postgres.ground import plain_name
from wakeful.connect.postgres.reader import PostgresReader
from wakeful.runtime import Runtime
from wakeful.testing.postgres_server import PostgresServer
from wakeful.triggers.source import Batch, Context, SeenItems, SourceTrouble


async def trouble_of(runtime: Runtime) -> str:
    """What keeps the source from being read, which is an alarm too."""
    await runtime.sources.drain()
    found = await the_source(runtime)
    assert found.state == "failing"
    (alarm,) = [one for one in (await runtime.reader.alarms())["alarms"] if one["state"] != "resolved"]
    assert found.error in alarm["text"]
    return str(found.error)


async def concerns(runtime: Runtime) -> list[str]:
    listed = (await runtime.reader.alarms())["alarms"]
    return [one["text"] for one in listed if one["state"] != "resolved" and one["key"].endswith("/concern")]


@pytest.fixture
def sqlite_app(sqlite_url: str) -> NewApp:
    """Where what is tested has nothing to do with the store."""

    def make(name: str = "app", **options: Any) -> App:
        return App(name, store=sqlite_url, **options)

    return make


@pytest.fixture
async def own_server(request: pytest.FixtureRequest) -> AsyncIterator[Shop]:
    """A server that a test may stop or misconfigure."""
    settings = getattr(request, "param", {"wal_level": "logical"})
    with PostgresServer(fsync=False, settings=settings) as server:
        made = Shop(server, await server.create_database())
        await made.execute(TABLE)
        yield made
        await made.close()


async def role(shop: Shop, options: str = "") -> Shop:
    """The same database for somebody with fewer rights."""
    name = f"reader_{shop.name}"
    await shop.execute(f"create role {name} login password 'secret' {options}", f"grant select on orders to {name}")

    class AsRole(Shop):
        @property
        def dsn(self) -> str:
            return shop.dsn.replace(f"postgres:{shop.server._password}@", f"{name}:secret@")

    return AsRole(shop.server, shop.name)


async def forget_role(shop: Shop) -> None:
    name = f"reader_{shop.name}"
    await shop.execute(f"drop owned by {name}", f"drop role {name}")


async def test_a_database_that_is_down_at_the_start_is_read_when_it_is_up(new_app: NewApp, own_server: Shop):
    seen: Seen = []
    own_server.server.stop()
    async with working(an_app(new_app, own_server, seen), reading="drained") as runtime:
        words = await trouble_of(runtime)
        assert "cannot be read" in words
        assert "refused" in words
        own_server.server.start()
        await runtime.drain()
        await own_server.execute("insert into orders values (1, 'new', 1)")
        await runtime.drain()
        assert (await the_source(runtime)).state == "reading"
        assert not [one for one in (await runtime.reader.alarms())["alarms"] if one["state"] != "resolved"]
    assert [one["new"]["id"] for one in seen] == [1]


@pytest.mark.parametrize("own_server", [{"wal_level": "replica"}], indirect=True)
async def test_a_server_without_logical_decoding(sqlite_app: NewApp, own_server: Shop):
    async with working(an_app(sqlite_app, own_server, []), reading="drained") as runtime:
        assert "ALTER SYSTEM SET wal_level = 'logical', then restart" in await trouble_of(runtime)
    (problem,) = await postgres_changes(own_server.dsn, table="orders").problems()
    assert "wal_level is replica" in problem


async def test_a_missing_table_keeps_no_other_from_being_read(sqlite_app: NewApp, shop: Shop, monkeypatch: Any):
    monkeypatch.setattr(PostgresReader, "look_every", 0.05)
    seen: Seen = []
    app = an_app(sqlite_app, shop, seen)

    @app.agent(postgres_changes(shop.dsn, table="order"))
    async def other(run: Run) -> None:
        seen.append({"id": "0-0/0", "new": run.event.data["new"]})

    async with working(app) as runtime, asyncio.timeout(30):
        while not await concerns(runtime):
            await asyncio.sleep(0.01)
        (words,) = await concerns(runtime)
        assert 'there is no table order: create it, or name another. Did you mean "orders"?' in words
        await shop.execute("insert into orders values (1, 'new', 1)")
        while not seen:
            await asyncio.sleep(0.01)
        await shop.execute('create table "order" (id int primary key)')
        while await concerns(runtime):
            await asyncio.sleep(0.01)
        await shop.execute('insert into "order" values (7)')
        while len(seen) < 2:
            await asyncio.sleep(0.01)
    assert [one["new"]["id"] for one in seen] == [1, 7]


async def test_a_table_without_a_key_is_not_published_so_that_its_owner_can_go_on(sqlite_app: NewApp, shop: Shop):
    await shop.execute("create table log (line text)")
    async with working(an_app(sqlite_app, shop, [], table="log"), reading="drained") as runtime:
        words = await trouble_of(runtime)
        assert "table log has no primary key" in words
        assert "ALTER TABLE public.log REPLICA IDENTITY FULL" in words
        await shop.execute("insert into log values ('a')", "update log set line = 'b'", "delete from log")
    (problem,) = await postgres_changes(shop.dsn, table="log").problems()
    assert "has no primary key" in problem


async def test_a_table_that_is_locked_keeps_no_other_from_being_read(
    sqlite_app: NewApp, shop: Shop, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(PostgresReader, "look_every", 0.05)
    monkeypatch.setattr("wakeful.connect.postgres.ground.LOCK_WITHIN", "50ms")
    await shop.execute("create table other (id int primary key)")
    seen: Seen = []
    app = an_app(sqlite_app, shop, seen)

    @app.agent(postgres_changes(shop.dsn, table="other"))
    async def other(run: Run) -> None:
        seen.append({"id": "0-0/0", "new": run.event.data["new"]})

    holder = Shop(shop.server, shop.name)
    await holder.execute("begin", "lock table other in share update exclusive mode")  # as VACUUM and CREATE INDEX do
    async with working(app) as runtime, asyncio.timeout(60):
        while not await concerns(runtime):
            await asyncio.sleep(0.01)
        (words,) = await concerns(runtime)
        assert "table other is locked" in words
        await shop.execute("insert into orders values (1, 'new', 1)")
        while not seen:
            await asyncio.sleep(0.01)
        await holder.execute("commit")
        while await concerns(runtime):
            await asyncio.sleep(0.01)
        await shop.execute("insert into other values (7)")
        while len(seen) < 2:
            await asyncio.sleep(0.01)
    await holder.close()
    assert [one["new"]["id"] for one in seen] == [1, 7]


async def test_a_table_that_is_locked_is_taken_out_later(
    sqlite_app: NewApp, shop: Shop, monkeypatch: pytest.MonkeyPatch
):
    published = "select string_agg(tablename, ',' order by tablename) from pg_publication_tables"
    await shop.execute("create table other (id int primary key)")
    app = an_app(sqlite_app, shop, [])
    app.agent(postgres_changes(shop.dsn, table="other"), name="second")(lambda run: None)
    async with working(app, reading="drained") as runtime:
        await runtime.drain()
    holder = Shop(shop.server, shop.name)
    await holder.execute("begin", "lock table other in share update exclusive mode")
    monkeypatch.setattr("wakeful.connect.postgres.ground.LOCK_WITHIN", "50ms")
    async with working(an_app(sqlite_app, shop, []), reading="drained") as runtime:
        await runtime.drain()
        assert (await the_source(runtime)).state == "reading"
        assert await shop.value(published) == "orders,other"
    monkeypatch.undo()
    await holder.execute("commit")
    await holder.close()
    async with working(an_app(sqlite_app, shop, []), reading="drained") as runtime:
        await runtime.drain()
        assert await shop.value(published) == "orders"


async def test_inserts_need_no_key(sqlite_app: NewApp, shop: Shop):
    await shop.execute("create table log (line text)")
    seen: Seen = []
    async with working(an_app(sqlite_app, shop, seen, table="log", operations="insert"), reading="drained") as runtime:
        await runtime.drain()
        await shop.execute("insert into log values ('a')", "update log set line = 'b'", "delete from log")
        await runtime.drain()
    assert [(one["new"], one["key"]) for one in seen] == [({"line": "a"}, {})]
    assert await postgres_changes(shop.dsn, table="log", operations="insert").problems() == []


async def test_a_trigger_that_is_gone_is_published_no_more(sqlite_app: NewApp, shop: Shop):
    await shop.execute("create table other (id int primary key)")
    published = "select string_agg(tablename, ',' order by tablename) from pg_publication_tables"
    app = an_app(sqlite_app, shop, [])
    app.agent(postgres_changes(shop.dsn, table="other"), name="second")(lambda run: None)
    async with working(app, reading="drained") as runtime:
        await runtime.drain()
        assert await shop.value(published) == "orders,other"
    async with working(an_app(sqlite_app, shop, []), reading="drained") as runtime:
        await runtime.drain()
        assert await shop.value(published) == "orders"


async def test_a_role_that_may_not_replicate(sqlite_app: NewApp, shop: Shop):
    limited = await role(shop)
    await shop.execute(f"grant create on database {shop.name} to reader_{shop.name}")
    await shop.execute(f"alter table orders owner to reader_{shop.name}")
    async with working(an_app(sqlite_app, limited, []), reading="drained") as runtime:
        words = await trouble_of(runtime)
        assert f'role reader_{shop.name} may not read the log: ALTER ROLE "reader_{shop.name}" REPLICATION' in words
    (problem,) = await postgres_changes(limited.dsn, table="orders").problems()
    assert "may not read the log" in problem
    await forget_role(shop)


async def test_a_role_that_may_neither_publish_nor_replicate_is_told_both(sqlite_app: NewApp, shop: Shop):
    limited = await role(shop)
    async with working(an_app(sqlite_app, limited, []), reading="drained") as runtime:
        words = await trouble_of(runtime)
        assert "CREATE PUBLICATION wakeful_app FOR TABLE public.orders" in words
        assert f'ALTER ROLE "reader_{shop.name}" REPLICATION' in words
    await forget_role(shop)


async def test_a_role_that_may_not_replicate_any_more_is_told_what_to_do(sqlite_app: NewApp, shop: Shop):
    limited = await role(shop, "replication")
    await shop.execute("create publication wakeful_app for table orders")
    seen: Seen = []
    async with working(an_app(sqlite_app, limited, seen), reading="drained") as runtime:
        await runtime.drain()
    await shop.execute(f"alter role reader_{shop.name} noreplication")
    async with working(an_app(sqlite_app, limited, seen), reading="drained") as runtime:
        assert f'ALTER ROLE "reader_{shop.name}" REPLICATION' in await trouble_of(runtime)
        await shop.execute(f"alter role reader_{shop.name} replication", "insert into orders values (1, 'new', 1)")
        await runtime.drain()
        assert [one["new"]["id"] for one in seen] == [1]
    await forget_role(shop)


async def test_a_role_that_may_not_publish_is_told_what_its_owner_must_run(sqlite_app: NewApp, shop: Shop):
    limited = await role(shop, "replication")
    seen: Seen = []
    trigger = postgres_changes(limited.dsn, table="orders")
    (problem,) = await trigger.problems()
    assert "table orders belongs to postgres, and only its owner may publish it" in problem
    async with working(an_app(sqlite_app, limited, seen), reading="drained") as runtime:
        words = await trouble_of(runtime)
        assert "CREATE PUBLICATION wakeful_app FOR TABLE public.orders" in words
        await shop.execute("create publication wakeful_app for table orders")  # as it says; it is used as it is
        await runtime.drain()
        await shop.execute("insert into orders values (1, 'new', 1)")
        await runtime.drain()
        assert [one["new"]["id"] for one in seen] == [1]
    assert await trigger.problems() == []
    await forget_role(shop)


async def test_a_publication_of_somebody_else_that_lacks_the_table(sqlite_app: NewApp, shop: Shop):
    await shop.execute("create publication theirs", "create table other (id int primary key)")
    async with working(an_app(sqlite_app, shop, [], publication="theirs"), reading="drained") as runtime:
        words = await trouble_of(runtime)
        assert 'ALTER PUBLICATION "theirs" ADD TABLE public.orders' in words


async def test_a_slot_that_somebody_else_reads(sqlite_app: NewApp, shop: Shop, monkeypatch: Any):
    monkeypatch.setattr(postgres_reader, "ANOTHER_READER_MAY_TAKE", 0.2)
    async with working(an_app(sqlite_app, shop, [], "app", slot="theirs_" + shop.name), reading="drained") as runtime:
        await runtime.drain()
        other = PostgresReader(
            [postgres_changes(shop.dsn, table="orders", slot="theirs_" + shop.name)],
            Context("other", "host", SystemClock(), SeenItems(runtime.database)),
        )
        with pytest.raises(
            Exception, match=r"is in use by process \d+ of the server .application 'wakeful app'.*slot=…"
        ):
            await other.open(None)
        await other.close()


@pytest.mark.parametrize("own_server", [{"wal_level": "logical", "max_replication_slots": 1}], indirect=True)
async def test_all_slots_in_use(sqlite_app: NewApp, own_server: Shop):
    await own_server.execute("select pg_create_physical_replication_slot('theirs')")
    async with working(an_app(sqlite_app, own_server, []), reading="drained") as runtime:
        assert "all replication slots of the server are in use" in await trouble_of(runtime)
    (problem,) = await postgres_changes(own_server.dsn, table="orders").problems()
    assert "raise max_replication_slots" in problem
    await own_server.execute("select pg_drop_replication_slot('theirs')")
    async with working(an_app(sqlite_app, own_server, []), reading="drained") as runtime:
        await runtime.drain()
    assert await postgres_changes(own_server.dsn, table="orders").problems() == []  # the last one is the app's own


async def test_a_slot_of_another_kind(sqlite_app: NewApp, shop: Shop):
    await shop.execute(f"select pg_create_physical_replication_slot('t_{shop.name}')")
    async with working(an_app(sqlite_app, shop, [], slot=f"t_{shop.name}"), reading="drained") as runtime:
        assert "belongs to another program (kind physical" in await trouble_of(runtime)
    await shop.execute(f"select pg_drop_replication_slot('t_{shop.name}')")


async def test_a_slot_that_was_made_anew_leaves_a_gap_which_is_said_and_kept(new_app: NewApp, shop: Shop):
    seen: Seen = []
    async with working(an_app(new_app, shop, seen), reading="drained") as runtime:
        await runtime.drain()
        await shop.execute("insert into orders values (1, 'new', 1)")
        await runtime.drain()
    await drop_slots(shop.dsn)
    await shop.execute("insert into orders values (2, 'never seen', 1)")
    async with working(an_app(new_app, shop, seen), reading="drained") as runtime:
        assert "were not read: slot wakeful_app_" in await trouble_of(runtime)
        await runtime.drain()
        await shop.execute("insert into orders values (3, 'new', 1)")
        await runtime.drain()
        assert (await the_source(runtime)).state == "reading"
        (kept,) = (await runtime.reader.events(state="quarantined", limit=10))["events"]
        assert "were not read" in kept["reason"]
    assert sorted(one["new"]["id"] for one in seen) == [1, 3]
    async with working(an_app(new_app, shop, seen), reading="drained") as runtime:  # it is said once
        await runtime.drain()
        assert (await the_source(runtime)).quarantined == 1


SMALL = {"wal_level": "logical", "max_slot_wal_keep_size": "1MB", "min_wal_size": "32MB", "max_wal_size": "32MB"}


@pytest.mark.parametrize("own_server", [SMALL], indirect=True)
async def test_a_slot_that_is_lost_is_an_alarm_with_the_remedy_that_works(sqlite_app: NewApp, own_server: Shop):
    seen: Seen = []
    async with working(an_app(sqlite_app, own_server, seen), reading="drained") as runtime:
        await runtime.drain()
    for _ in range(3):
        await own_server.execute(
            "select pg_logical_emit_message(false, 'x', repeat('x', 1000000))", "select pg_switch_wal()"
        )
    await own_server.execute("checkpoint")
    async with working(an_app(sqlite_app, own_server, seen), reading="drained") as runtime:
        words = await trouble_of(runtime)
        assert "is lost: the server has removed log" in words
        remedy = words[words.index("SELECT pg_drop") : words.index(";")]
        await own_server.execute(remedy)
        await runtime.drain()  # says what is missing
        await runtime.drain()
        await own_server.execute("insert into orders values (1, 'new', 1)")
        await runtime.drain()
        assert (await the_source(runtime)).state == "reading"
    assert [one["new"]["id"] for one in seen] == [1]


async def test_a_slot_that_holds_back_much_is_an_alarm_until_it_does_not(
    sqlite_app: NewApp, shop: Shop, monkeypatch: Any
):
    monkeypatch.setattr(PostgresReader, "look_every", 0.05)
    monkeypatch.setattr("wakeful.connect.postgres.ground.HELD_BACK", 0)
    async with working(an_app(sqlite_app, shop, [])) as runtime, asyncio.timeout(30):
        while not await concerns(runtime):
            await asyncio.sleep(0.01)
        (words,) = await concerns(runtime)
        assert "holds back" in words
        assert (await the_source(runtime)).state == "reading"
        monkeypatch.setattr("wakeful.connect.postgres.ground.HELD_BACK", 1 << 40)
        while await concerns(runtime):
            await asyncio.sleep(0.01)


async def test_a_quiet_table_does_not_hold_back_what_others_write(new_app: NewApp, shop: Shop, monkeypatch: Any):
    monkeypatch.setattr(PostgresReader, "quiet_every", 0.0)
    monkeypatch.setattr(PostgresReader, "quiet_bytes", 100_000)
    await shop.execute("create table noise (line text)")
    async with working(an_app(new_app, shop, []), reading="drained") as runtime:
        await runtime.drain()
        await shop.execute("insert into noise select repeat('x', 1000) from generate_series(1, 2000)")
        written = await shop.value("select pg_current_wal_flush_lsn() - '0/0'::pg_lsn")
        await runtime.drain()
        query = (
            "select confirmed_flush_lsn - '0/0'::pg_lsn from pg_replication_slots where database = current_database()"
        )
        async with asyncio.timeout(60):
            while await shop.value(query) < written - 100_000:
                await runtime.drain()


async def test_data_that_cannot_be_told_is_kept_and_can_be_read_again(new_app: NewApp, shop: Shop):
    seen: Seen = []
    broken = True

    def ratio(data: Any) -> Any:
        return {"ratio": 1 / (0 if broken and data["new"]["id"] == 1 else 2), **data}

    app = new_app()

    @app.agent(postgres_changes(shop.dsn, table="orders", data=ratio))
    async def note(run: Run) -> None:
        seen.append(run.event.data["new"]["id"])

    async with working(app, reading="drained") as runtime:
        await runtime.drain()
        await shop.execute("insert into orders values (1, 'new', 1), (2, 'new', 1)")
        await runtime.drain()
        assert seen == [2]
        (kept,) = (await runtime.reader.events(state="quarantined", limit=10))["events"]
        assert "ZeroDivisionError" in kept["reason"]
        (reading,) = runtime.sources.readings.values()
        broken = False
        from wakeful.intake.quarantine import raw_of

        ((envelope,),) = await _envelopes(runtime)
        (event,) = reading.reader.read_again(raw_of(envelope), await _headers(runtime))
        assert event.data["new"]["id"] == 1
        assert event.id.endswith("/0")


async def _envelopes(runtime: Runtime) -> list[Any]:
    from support.stores import query

    return await query(runtime.url, "select envelope from wakeful_event where state = 'quarantined'")


async def _headers(runtime: Runtime) -> dict[str, str]:
    import json

    from support.stores import query

    ((headers,),) = await query(runtime.url, "select headers from wakeful_quarantine")
    found: dict[str, str] = json.loads(headers)
    return found


async def test_two_apps_read_the_same_table_each_for_itself(new_app: NewApp, shop: Shop):
    first: Seen = []
    second: Seen = []
    async with (
        working(an_app(new_app, shop, first, "first"), reading="drained") as one,
        working(an_app(new_app, shop, second, "second"), reading="drained") as other,
    ):
        await one.drain()
        await other.drain()
        await shop.execute("insert into orders values (1, 'new', 1)")
        await one.drain()
        await other.drain()
    assert [len(first), len(second)] == [1, 1]


class Memory:
    async def items_of(self, app: str, source: str) -> list[Any]:
        return []


def reading(shop: Shop) -> PostgresReader:
    trigger = postgres_changes(shop.dsn, table="orders")
    return PostgresReader([trigger], Context("app", "host", SystemClock(), Memory()))


async def test_a_log_that_ends_before_the_cursor_was_put_back_which_is_said_and_kept(shop: Shop):
    """Of what a restored server writes until it is as far again, nothing is skipped as if it were known."""
    system = await shop.value("select system_identifier::text from pg_control_system()")
    reader = reading(shop)
    with pytest.raises(SourceTrouble, match="the server was reset to an earlier state"):
        await reader.open(f"{system}/FFFFFFFFFFFF/7")
    await reader.open(f"{system}/FFFFFFFFFFFF/7")
    await shop.execute("insert into orders values (1, 'new', 1)")
    batches: list[Batch] = []
    async with asyncio.timeout(60):
        while not any(one.events for one in batches):
            batches += [one] if (one := await reader.read(0.1)) is not None else []
    await reader.close()
    ((gap,), *_) = [one.unreadable for one in batches]
    assert "were not read: the server was reset" in gap.reason


async def test_what_comes_while_the_slot_is_moved_is_confirmed_with_its_own_batch_alone(shop: Shop, monkeypatch: Any):
    monkeypatch.setattr(PostgresReader, "quiet_every", 0.0)
    monkeypatch.setattr(PostgresReader, "quiet_bytes", 1)
    await shop.execute("create table noise (line text)")
    reader = reading(shop)
    await reader.open(None)
    async with asyncio.timeout(60):
        first = await reader.read(1.0)
        assert first is not None
        await reader.acknowledge(first)
        while (move := await reader.read(0.1)) is None:
            await shop.execute("insert into noise values ('x')")
        receipt = move.receipt  # it is being stored now
        await shop.execute("insert into orders values (1, 'new', 1)")
        while (batch := await reader.read(0.1)) is None:
            pass
    await reader.close()
    assert (move.events, move.receipt) == ([], receipt)
    assert [event.subject for event in batch.events] == ["orders/1"]
    assert batch.receipt > receipt


async def test_a_message_in_the_transaction_says_who_wrote_it(shop: Shop):
    from wakeful.connect.rows.change import RowChange

    causes: list[str | None] = []

    class Telling:
        table = "orders"
        operations = ("insert",)
        source = "/x"

        def takes(self, change: RowChange) -> bool:
            causes.append(change.cause)
            return False

    class Declared:
        rows = Telling()
        address = dsn = shop.dsn
        place = "here"
        slot = publication = None

    reader = PostgresReader([Declared()], Context("causes", "host", SystemClock(), Memory()))
    await reader.open(None)
    await shop.execute(
        "begin; insert into orders values (1); select pg_logical_emit_message(true, 'wakeful', 'run 7'); "
        "insert into orders values (2); commit",
        "insert into orders values (3)",
        "select pg_logical_emit_message(true, 'other', 'no')",
    )
    async with asyncio.timeout(60):
        while len(causes) < 3:
            await reader.read(0.1)
    await reader.close()
    assert causes == ["run 7", "run 7", None]


def test_what_is_declared_wrong_is_said_at_once():
    cases: list[tuple[Callable[[], object], str]] = [
        (lambda: postgres_changes("mysql://x", table="t"), "postgresql://user@host/database"),
        (lambda: postgres_changes("postgresql://h/d", table="t", via="trigger"), 'Did you mean "triggers"?'),
        (lambda: postgres_changes("postgresql://h/d", table="t", slot="No"), "lower-case letters"),
        (lambda: postgres_changes("postgresql://h/d", table=""), "name of a table"),
        (lambda: postgres_changes("postgresql://h/d", table="t", operations="upsert"), 'unknown operation "upsert"'),
    ]
    for declare, words in cases:
        with pytest.raises(ConfigError, match=words.replace("?", r"\?")):
            declare()


async def test_a_secret_is_neither_shown_nor_read_before_it_is_needed():
    trigger = postgres_changes("postgresql://me:hush@h:1/d", table="t")
    named = postgres_changes(env("NOT_SET_ANYWHERE"), table="t")
    assert "hush" not in f"{trigger!r} {trigger.source} {trigger.shared} {trigger.describe()}"
    assert (trigger.source, named.source) == ("/postgres/h:1/d/t", "/postgres/NOT_SET_ANYWHERE/t")
    (problem,) = await named.problems()
    assert "NOT_SET_ANYWHERE is not set" in problem


async def test_without_psycopg_it_says_what_to_install(sqlite_app: NewApp, shop: Shop, monkeypatch: Any):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    words = 'postgres_changes needs psycopg: pip install "wakeful[changes]"'
    assert await postgres_changes(shop.dsn, table="orders").problems() == [words]
    async with working(an_app(sqlite_app, shop, []), reading="drained") as runtime:
        assert await trouble_of(runtime) == words


async def test_problems_say_when_old_values_need_the_whole_row(shop: Shop):
    asks = postgres_changes(shop.dsn, table="orders", where='data.old.status == "new"')
    some = postgres_changes(shop.dsn, table="orders", columns=["status", "nothing"])
    (first,) = await asks.problems()
    assert first.endswith("which PostgreSQL does not send before ALTER TABLE public.orders REPLICA IDENTITY FULL")
    (mapped,) = await postgres_changes(shop.dsn, table="orders", data="data.old").problems()
    assert "data= uses old values" in mapped
    column, note = await some.problems()
    assert "has no column nothing" in column
    assert "REPLICA IDENTITY FULL" in note
    await shop.execute("alter table orders replica identity full")
    assert await asks.problems() == []
    (missing,) = await postgres_changes(shop.dsn, table="ordrs").problems()
    assert 'Did you mean "orders"?' in missing


@pytest.mark.parametrize(
    "parts", [("wakeful", "app"), ("wakeful", "My.App"), ("wakeful", "a" * 100), ("wakeful", "my_app")]
)
def test_names_are_such_that_postgres_takes_them(parts: tuple[str, ...]):
    name = plain_name(*parts)
    assert len(name) <= 63
    assert name.replace("_", "").isalnum()
    assert name == name.lower()
