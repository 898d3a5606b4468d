"""The schema: made by numbered files, the same in both databases, and refused when it does not fit."""

from __future__ import annotations

import asyncio
import re
from typing import get_args

import pytest

from support.stores import OpenStore, accept, an_arrival, query
from wakeful.clock import VirtualClock
from wakeful.errors import SchemaMismatch
from wakeful.model import EffectState
from wakeful.stores.database import Database
from wakeful.stores.migrations import migrations
from wakeful.stores.opening import open_database

TABLES = {
    "sqlite": "select name from sqlite_schema where type = 'table' and name like 'wakeful_%'",
    "postgres": "select tablename from pg_tables where tablename like 'wakeful_%'",
}
COLUMNS = {
    "sqlite": "select name from pragma_table_info($1)",
    "postgres": "select column_name from information_schema.columns where table_name = $1",
}


@pytest.fixture
def empty_url(dialect: str, request: pytest.FixtureRequest) -> str:
    """A store without a schema."""
    url: str = request.getfixturevalue("sqlite_url" if dialect == "sqlite" else "postgres_dsn")
    return url


@pytest.fixture
async def database(empty_url: str, clock: VirtualClock):
    opened = open_database(empty_url, clock)
    yield opened
    await opened.close()


async def schema_of(url: str, dialect: str) -> dict[str, set[str]]:
    tables = [row[0] for row in await query(url, TABLES[dialect])]
    return {table: {row[0] for row in await query(url, COLUMNS[dialect], table)} for table in tables}


async def test_a_fresh_store_gets_everything_and_a_second_time_nothing(database: Database, dialect):
    await database.open(migrate=True)
    known = [(migration.number, migration.name) for migration in migrations(dialect)]
    assert [tuple(row) for row in await database.applied_migrations()] == known
    assert await database.migrate() == []
    assert [tuple(row) for row in await database.applied_migrations()] == known


async def test_migrating_keeps_what_is_there(stores: OpenStore, store_url: str):
    store = await stores(store_url)
    await accept(store, an_arrival())
    await store.database.migrate()
    assert (await accept(store, an_arrival()))[0].status == "duplicate"


async def test_several_that_migrate_at_once_do_it_once(empty_url: str, clock: VirtualClock, dialect):
    databases = [open_database(empty_url, clock) for _ in range(4)]
    try:
        await asyncio.gather(*(database.open(migrate=True) for database in databases))
        assert [row[0] for row in await query(empty_url, "select number from wakeful_migration order by number")] == [
            migration.number for migration in migrations(dialect)
        ]
    finally:
        for database in databases:
            await database.close()


@pytest.mark.postgres
async def test_on_postgresql_a_schema_that_is_behind_is_refused_with_the_remedy(postgres_dsn: str, clock: VirtualClock):
    database = open_database(postgres_dsn, clock)
    try:
        with pytest.raises(SchemaMismatch, match=r"behind: 0001_engine.*wakeful migrate"):
            await database.open(migrate=False)
        await database.migrate()
        await database.open(migrate=False)
    finally:
        await database.close()


async def test_a_schema_that_is_ahead_is_refused_and_left_alone(
    database: Database, empty_url: str, dialect, clock: VirtualClock
):
    await database.open(migrate=True)
    await query(empty_url, "insert into wakeful_migration (number, name, applied_at) values (9999, 'future', 1)")
    newcomer = open_database(empty_url, clock)
    try:
        with pytest.raises(SchemaMismatch, match=r"ahead: this database has migration 9999.*Install the newer"):
            await newcomer.open(migrate=True)
    finally:
        await newcomer.close()
    assert await query(empty_url, "select number from wakeful_migration where number = 9999") == [(9999,)]


@pytest.mark.postgres
async def test_both_databases_have_the_same_tables_and_columns(sqlite_url: str, postgres_dsn: str, clock: VirtualClock):
    schemas = []
    for url, dialect in ((sqlite_url, "sqlite"), (postgres_dsn, "postgres")):
        database = open_database(url, clock)
        await database.open(migrate=True)
        await database.close()
        schemas.append(await schema_of(url, dialect))
    # Which transaction wrote an event, and what a run could see when it was made: SQLite has one writer, and needs neither.
    schemas[1]["wakeful_event"].remove("written_in")
    schemas[1]["wakeful_run"].remove("made_in")
    assert schemas[0] == schemas[1]
    assert "wakeful_run" in schemas[0]


def test_both_databases_have_the_same_numbers_and_names():
    of_sqlite, of_postgres = (
        [(migration.number, migration.name) for migration in migrations(dialect)] for dialect in ("sqlite", "postgres")
    )
    assert of_sqlite == of_postgres
    numbers = [number for number, _ in of_sqlite]
    assert numbers == sorted(set(numbers))  # a number that was given up leaves a gap
    assert numbers[0] == 1


def test_both_databases_check_the_same_states():
    """Where a column is limited to some words, it is to the same words in both."""
    checks = [
        set(re.findall(r"check \(([^)]*)\)", "".join(migration.sql for migration in migrations(dialect))))
        for dialect in ("sqlite", "postgres")
    ]
    assert checks[0] == checks[1]
    assert checks[0]


async def test_the_states_of_an_effect_are_those_of_the_model(store_url: str, stores: OpenStore):
    """On SQLite a migration edits the words of the check."""
    await stores(store_url)
    stated = (
        "select sql from sqlite_schema where name = 'wakeful_effect'"
        if store_url.startswith("sqlite")
        else "select pg_get_constraintdef(oid) from pg_constraint where conname = 'wakeful_effect_state_check'"
    )
    ((text,),) = await query(store_url, stated)
    check = text[text.index("state in (" if store_url.startswith("sqlite") else "CHECK") :].split(")")[0]
    assert set(re.findall(r"'(\w+)'", check)) == set(get_args(EffectState))
