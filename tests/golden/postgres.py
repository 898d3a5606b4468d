"""The frozen store on PostgreSQL: the same rows as in its SQLite file."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import asyncpg

from support.databases import Databases
from wakeful.testing.postgres_server import PostgresServer

# Tables that say which database this is: the new one has its own rows.
OWN = {"wakeful_migration", "wakeful_migration_detail", "wakeful_origin"}
COLUMNS = """
select table_name, column_name, data_type, is_identity = 'YES' or coalesce(column_default, '') like 'nextval%'
from information_schema.columns
where table_schema = 'public' and table_name like 'wakeful\\_%'
order by table_name, ordinal_position
"""


async def make_template(server: PostgresServer, databases: Databases, store: Path) -> str:
    """The name of a database with the rows of a SQLite file. Databases for tests are copies of it."""
    name = await databases.take()
    connection = await asyncpg.connect(server.dsn(name))
    try:
        with closing(sqlite3.connect(store)) as source:
            await copy_rows(source, connection)
    finally:
        await connection.close()
    return name


async def copy_rows(source: sqlite3.Connection, target: Any) -> None:
    tables: dict[str, list[tuple[str, str, bool]]] = {}
    for table, column, kind, numbered in await target.fetch(COLUMNS):
        # A column that only PostgreSQL has gets its default.
        if column in {row[1] for row in source.execute(f"pragma table_info({table})")}:
            tables.setdefault(table, []).append((column, kind, numbered))
    await target.execute("set session_replication_role = replica")  # in any order, and without triggers
    for table, columns in tables.items():
        if table in OWN:
            continue
        names = [column for column, _, _ in columns]
        rows = source.execute(f"select {', '.join(names)} from {table}").fetchall()
        flags = {place for place, (_, kind, _) in enumerate(columns) if kind == "boolean"}
        records = [
            tuple(bool(one) if place in flags and one is not None else one for place, one in enumerate(row))
            for row in rows
        ]
        await target.execute(f"delete from {table}")
        await target.copy_records_to_table(table, records=records, columns=names)
        for column, _, numbered in columns:
            if numbered and rows:
                await target.execute(
                    f"select setval(pg_get_serial_sequence('{table}', '{column}'), (select max({column}) from {table}))"
                )
