"""Code of one version on the schema of another: old processes go on while a new version is rolled out."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import apsw
import asyncpg
import pytest

from support.schemas import knowing, later
from support.stores import OpenStore, accept, an_arrival, join, query, reader
from wakeful.clock import VirtualClock
from wakeful.errors import SchemaMismatch, StoreUnavailable
from wakeful.settings import sqlite_path
from wakeful.stores.migration_plan import plan
from wakeful.stores.migrations import Patience, migrations, newest, standing
from wakeful.stores.opening import open_database
from wakeful.stores.queries import Dialect
from wakeful.stores.statements import read, split
from wakeful.testing.waiting import until

NEXT = later(
    9001, "alter table wakeful_run add column later text; create index wakeful_run_later on wakeful_run (later);"
)
TAKES = later(9002, "-- contract: needs 9001\nalter table wakeful_run drop column data;", "takes")

# Never edit a migration that was released: databases that have the old text would not get the difference. Add a file instead,
# and add its digests here when it is released.
RELEASED = {
    "sqlite": {
        "0001_engine": "507747c7d7d83805ab5e1158b71a1f8989b19471fb07f7378e8cc7a5999575eb",
        "0002_effects": "7e84dba12ef1088d4d7df3bbf77259dabe8e4734003bf16e2b48b6bd5ae25cd3",
        "0003_redo": "1e3d968c6e6a6f0eb8736919f7de3b7c7e56540a0b32b5e58a67a8e2e02a28d8",
        "0004_outbox": "ea68720442e659c0c441b0138e3919c1b2f0da10518700f4427525113592a5a3",
        "0005_flow": "4db1d49c10c04dd77f185569e2887743b99724f5921b53b17315a0f2bc5c8fe8",
        "0006_time": "75154b1cbd16403c960475582d39ff01527adee77664655c2e61a21695d57ec0",
        "0007_sources": "c86e437ecb27d55c4781bd0fa06803e077441ca5f9fa11426f646f2e92184f10",
    },
    "postgres": {
        "0001_engine": "c05bdac938980078129835de917d2779b4845449713a3c54795f13124cca3925",
        "0002_effects": "65e76b7c2489f0eb2453d093230d28fedbb38145d11d6d038b9424871e3e5f34",
        "0003_redo": "96ec4327d7122c92d2963374e57e228bd5513c9c15bb7da21e40ec0ee846d674",
        "0004_outbox": "ecd4b9d9868d04755c4486a0b551ebfb9a323c8e7d8246aa0fc6c0fcb439c71a",
        "0005_flow": "2245d89b096a2e6c3927bc260d521177cfd14899bd28484de83b176afdc7ca52",
        "0006_time": "f801aa9aa4689a9d4ee8af134f75eae65e17ebdeb03d44e420c1f266715bd808",
        "0007_sources": "8a3a791ef6b74c11b444129dda6de9f0d4060cc30443177362e71db88cfb30ea",
    },
}


async def migrate(url: str, clock: VirtualClock, **more) -> list[str]:
    database = open_database(url, clock)
    try:
        await database.open(migrate=False) if database.dialect == "sqlite" else None
        return [migration.label for migration in await database.migrate(**more)]
    finally:
        await database.close()


async def test_old_code_goes_on_and_starts_anew_on_a_schema_that_only_grew(
    stores: OpenStore, store_url: str, clock: VirtualClock
):
    running = await stores(store_url)
    with knowing(NEXT):
        assert await migrate(store_url, clock) == ["9001_later"]
    started = await stores(store_url)
    for old in (running, started):
        health = await reader(old).health()
        assert health["schema"] == 9001
        assert "the schema is ahead (9001" in health["note"]
        assert "compatible" in health["note"]
    assert (await accept(running, an_arrival("1")))[0].status == "accepted"
    worker = await join(started)
    await worker.finish(await worker.claim_one())
    with knowing(NEXT):
        new = await stores(store_url)
        assert "note" not in await reader(new).health()
        assert (await accept(new, an_arrival("1")))[0].status == "duplicate"


async def test_old_code_is_refused_where_something_it_needs_was_taken_away(
    stores: OpenStore, store_url: str, clock: VirtualClock
):
    running = await stores(store_url)
    with knowing(NEXT, TAKES):
        assert await migrate(store_url, clock) == ["9001_later", "9002_takes"]
    said = r"ahead: this database has migration 9002.*\(9002_takes needs a version that knows 9001\).*Install the newer"
    with pytest.raises(SchemaMismatch, match=said):
        await reader(running).health()
    with pytest.raises(SchemaMismatch, match=said):
        await stores(store_url)
    with knowing(NEXT):  # one version before, and it knows what is needed
        assert "compatible" in (await reader(await stores(store_url)).health())["note"]


async def test_what_takes_something_away_waits_for_old_processes(
    stores: OpenStore, store_url: str, clock: VirtualClock
):
    old = await join(await stores(store_url), "old")
    told: list[str] = []
    with knowing(NEXT, TAKES):
        assert await migrate(store_url, clock, told=told.append) == ["9001_later"]
        assert (
            f"9002_takes is postponed: it removes something that process {old.process} (host, pid 1) uses" in told[-1]
        )
        new = await stores(store_url)  # the new version works before it and after it
        assert "9002_takes waits until no older process is running" in (await reader(new).health())["note"]
        await join(new, "new")
        clock.move("20s")  # the lease of the old one is over; so is the new one's, but that one knows enough
        assert await migrate(store_url, clock) == ["9002_takes"]
        assert "note" not in await reader(new).health()


async def test_the_text_of_each_migration_is_known_by_its_digest(
    stores: OpenStore, store_url: str, clock: VirtualClock, dialect
):
    with knowing(NEXT):
        await migrate(store_url, clock)
        rows = await query(store_url, "select number, digest, needs from wakeful_migration_detail order by number")
        assert rows == [(one.number, one.digest, 0) for one in (*migrations(dialect), NEXT)]
    edited = later(9001, NEXT.sql + "-- edited")
    with knowing(edited):
        store = await stores(store_url)
        found = standing(dialect, await store.database.ledger())
        assert [one.label for one in found.changed] == ["9001_later"]
        assert found.pending == []


@pytest.fixture
def older_url(dialect: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store as the version left it that knew seven migrations, and kept nothing but their names."""
    return f"sqlite:///{tmp_path / 'older.db'}" if dialect == "sqlite" else request.getfixturevalue("postgres_dsn")


async def make_older(url: str, dialect: Dialect) -> None:
    path = sqlite_path(url)
    connection: Any = apsw.Connection(str(path)) if path is not None else await asyncpg.connect(url)
    scripts = [
        "create table wakeful_migration (number bigint primary key, name text not null, applied_at bigint not null)"
    ]
    for migration in migrations(dialect)[:7]:
        scripts += [migration.sql, f"insert into wakeful_migration values ({migration.number}, '{migration.name}', 1)"]
    for script in scripts:
        result = connection.execute(script)
        if path is None:
            await result
    closed = connection.close()
    if path is None:
        await closed


async def test_a_store_of_an_older_version_is_brought_up_to_date_as_a_new_one_is(
    older_url: str, store_url: str, stores: OpenStore, clock: VirtualClock, dialect
):
    """On PostgreSQL what was there before is changed in another way than what is new: the outcome must be the same."""
    await make_older(older_url, dialect)
    await query(older_url, AN_EVENT)
    pending = [migration.label for migration in migrations(dialect)[7:]]
    assert await migrate(older_url, clock) == pending
    assert await query(older_url, SCHEMA[dialect]) == await query(store_url, SCHEMA[dialect])
    assert not await query(older_url, NOT_VALID[dialect])
    store = await stores(older_url)
    assert "note" not in await reader(store).health()
    assert (await accept(store, an_arrival("new")))[0].status == "accepted"
    worker = await join(store)
    await worker.finish(await worker.claim_one())


AN_EVENT = """insert into wakeful_event (key, app, source, id, type, state, content, envelope, accepted_at)
values ('k', 'app', '/s', 'old', 't', 'accepted', 'd', '{}', 1)"""
# Columns by table, and indexes, whatever the order in which they were made.
SCHEMA = {
    "sqlite": """select 'column', m.name, c.name, c.type || c."notnull" || coalesce(c.dflt_value, '')
        from sqlite_schema m join pragma_table_info(m.name) c where m.name like 'wakeful_%' and m.type = 'table'
        union all select 'index', tbl_name, name, sql from sqlite_schema where type = 'index' and sql is not null order by 1, 2, 3""",
    "postgres": """select 'column', table_name::text, column_name::text, concat_ws(' ', data_type, is_nullable, column_default)
        from information_schema.columns where table_name like 'wakeful_%'
        union all select 'index', tablename::text, indexname::text, indexdef from pg_indexes where tablename like 'wakeful_%'
        union all select 'check', conrelid::regclass::text, conname::text, pg_get_constraintdef(oid) from pg_constraint
        where contype = 'c' order by 1, 2, 3""",
}
NOT_VALID = {
    "sqlite": "select 1 where 0",
    "postgres": """select indexrelid::regclass::text from pg_index where not indisvalid
        union all select conname::text from pg_constraint where not convalidated""",
}


@pytest.mark.parametrize("dialect", ["sqlite", "postgres"])
def test_released_migrations_are_never_edited(dialect):
    digests = {migration.label: migration.digest for migration in migrations(dialect)}
    assert {label: digests.get(label) for label in RELEASED[dialect]} == RELEASED[dialect]


TAKES_AWAY = re.compile(
    r"\b(drop (table|column|view)|rename|set not null|alter column \w+ type|add column \w+ \w+ not null(?!.* default))\b",
    re.IGNORECASE,
)


@pytest.mark.parametrize("dialect", ["sqlite", "postgres"])
def test_what_takes_something_away_says_which_code_it_needs(dialect):
    for migration in migrations(dialect):
        if migration.number > 7 and not migration.contracts:
            assert not [one for one in split(migration.sql) if TAKES_AWAY.search(one)], migration.label


def test_a_trigger_is_one_statement():
    script = """
    create trigger gone after delete on wakeful_event begin
      delete from wakeful_trace where event_seq = old.seq;
      delete from other where "end" = 1;
    end;
    create table after_it (id text);
    """
    trigger, table = split(script)
    assert trigger.startswith("create trigger gone")
    assert trigger.endswith("end")
    assert table == "create table after_it (id text)"


async def test_a_process_says_which_migrations_it_knows(stores: OpenStore, store_url: str):
    await join(await stores(store_url))
    assert await query(store_url, "select knows from wakeful_process") == [(newest(),)]


@pytest.mark.postgres
class TestOnPostgres:
    """What must not stop processes that work on the database."""

    async def test_a_long_reader_does_not_make_everybody_queue(self, postgres_url: str, clock: VirtualClock):
        other = await asyncpg.connect(postgres_url)
        told: asyncio.Queue[str] = asyncio.Queue()
        try:
            with knowing(NEXT):
                async with other.transaction():
                    await other.fetch("select 1 from wakeful_run")
                    patience = Patience(lock=20_000)
                    migrating = asyncio.create_task(
                        migrate(postgres_url, clock, patience=patience, told=told.put_nowait)
                    )
                    said = await told.get()
                    assert "9001_later: no lock on wakeful_run within 20 ms: held by pid" in said
                    assert f"pid {other.get_server_pid()} (postgres, transaction open for" in said
                    await query(postgres_url, "select 1 from wakeful_run")  # nobody is waited for in between
                assert await migrating == ["9001_later"]
        finally:
            await other.close()

    async def test_in_the_end_it_gives_up_with_nothing_applied(self, postgres_url: str, clock: VirtualClock):
        other = await asyncpg.connect(postgres_url)
        try:
            async with other.transaction():
                await other.fetch("select 1 from wakeful_run")
                with (
                    knowing(NEXT),
                    pytest.raises(StoreUnavailable, match=r"gave up after .* 1 attempts. Nothing of it"),
                ):
                    await migrate(postgres_url, clock, patience=Patience(lock=10_000, whole=0))
        finally:
            await other.close()
        assert await query(postgres_url, "select 1 from wakeful_migration where number = 9001") == []

    async def test_an_index_is_built_while_others_write_and_anew_after_a_crash(
        self, postgres_url: str, clock: VirtualClock
    ):
        """An index that is built concurrently waits for every snapshot that is older: that holds it in the middle."""
        onlooker = await asyncpg.connect(postgres_url)
        snapshot = await asyncpg.connect(postgres_url)
        try:
            async with snapshot.transaction(isolation="repeatable_read"):
                await snapshot.fetch("select 1 from wakeful_migration")
                with knowing(NEXT):
                    first = asyncio.create_task(migrate(postgres_url, clock))
                    await until(lambda: is_building(onlooker))
                    await onlooker.execute(WRITE)  # the table can be written meanwhile
                    killed = "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'wakeful migrate'"
                    await onlooker.execute(killed)
                    with pytest.raises(StoreUnavailable):
                        await first
            valid = "select indisvalid from pg_index where indexrelid = to_regclass('wakeful_run_later')"
            assert await onlooker.fetchval(valid) is False
            await open_and_close(postgres_url, clock)  # old code does not mind that it is half done
            with knowing(NEXT):
                with pytest.raises(SchemaMismatch, match="behind: 9001_later"):
                    await open_and_close(postgres_url, clock)
                told: list[str] = []
                assert await migrate(postgres_url, clock, told=told.append) == ["9001_later"]
                assert told == ["wakeful_run_later was left half built; building it again"]
                assert await onlooker.fetchval(valid) is True
                await open_and_close(postgres_url, clock)
        finally:
            await snapshot.close()
            await onlooker.close()

    async def test_two_at_once_wait_for_each_other_without_a_snapshot(self, postgres_url: str, clock: VirtualClock):
        """One that waited inside a statement would be waited for by the index of the other."""
        with knowing(NEXT):
            both = await asyncio.gather(*(migrate(postgres_url, clock) for _ in range(2)))
        assert sorted(both) == [[], ["9001_later"]]

    async def test_no_time_limit_of_the_role_or_the_client_ends_it(
        self, postgres_dsn: str, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.setattr("wakeful.stores.postgres_connections.COMMAND_TIMEOUT", 0.2)
        name = (await query(postgres_dsn, "select current_database()"))[0][0]
        await query(postgres_dsn, f"alter database {name} set statement_timeout = '100ms'")
        slow = later(9001, "select pg_sleep(0.3);")
        with knowing(slow):
            assert (await migrate(postgres_dsn, clock))[-1] == "9001_later"

    async def test_a_check_is_validated_while_others_write(self, postgres_url: str, clock: VirtualClock):
        wider = later(
            9001,
            "alter table wakeful_process drop constraint wakeful_process_state_check;\n"
            "alter table wakeful_process add constraint wakeful_process_state_check\n"
            "  check (state in ('alive', 'stopped', 'dead', 'later'));",
        )
        assert [(one.lock, one.later) for one in read(wider.sql)] == [
            ("ACCESS EXCLUSIVE", False),
            ("ACCESS EXCLUSIVE", False),
            ("SHARE UPDATE EXCLUSIVE", True),
        ]
        with knowing(wider):
            await migrate(postgres_url, clock)
        valid = "select convalidated from pg_constraint where conname = 'wakeful_process_state_check'"
        assert await query(postgres_url, valid) == [(True,)]

    async def test_a_plan_says_what_is_locked_and_for_how_long(self, postgres_dsn: str, clock: VirtualClock):
        await migrate(postgres_dsn, clock)
        await query(postgres_dsn, "update pg_class set reltuples = 600000 where relname = 'wakeful_run'")
        database = open_database(postgres_dsn, clock)
        try:
            with knowing(NEXT):
                steps = await plan(database, standing("postgres", await database.ledger()))
        finally:
            await database.close()
        assert [(one.table, one.lock, one.work, one.rows, one.microseconds) for one in steps] == [
            ("wakeful_run", "ACCESS EXCLUSIVE", "moment", 600_000, 0),
            ("wakeful_run", "SHARE UPDATE EXCLUSIVE", "index", 600_000, 2_000_000),
        ]


WRITE = (
    "insert into wakeful_operation (operator, verb, done_at) values ('a', 'b', 1); update wakeful_run set reason = null"
)


async def is_building(onlooker) -> bool:
    building = "select 1 from pg_stat_progress_create_index where phase like 'waiting for %'"
    return await onlooker.fetchval(building) == 1


async def open_and_close(url: str, clock: VirtualClock) -> None:
    database = open_database(url, clock)
    try:
        await database.open(migrate=False)
    finally:
        await database.close()
