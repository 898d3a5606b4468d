"""Numbered SQL files that make the schema, up only. On SQLite they run by themselves, on PostgreSQL when asked to."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib import resources

from wakeful.errors import SchemaMismatch
from wakeful.stores.queries import Dialect

CREATE_LEDGER = "create table if not exists wakeful_migration (number bigint primary key, name text not null, applied_at bigint not null)"
_FILE = re.compile(r"^(\d{4})_(\w+)\.sql$")


@dataclass(frozen=True, slots=True)
class Migration:
    """One numbered file."""

    number: int
    name: str
    sql: str


def migrations(dialect: Dialect) -> list[Migration]:
    """All migrations of a database, in order."""
    folder = resources.files("wakeful.stores") / "sql" / dialect
    found = [
        Migration(int(match[1]), match[2], file.read_text(encoding="utf-8"))
        for file in folder.iterdir()
        if (match := _FILE.match(file.name))
    ]
    return sorted(found, key=lambda migration: migration.number)


def missing(dialect: Dialect, applied: set[int]) -> list[Migration]:
    """What is still to be applied. SchemaMismatch when the database knows migrations that this version does not."""
    known = migrations(dialect)
    ahead = sorted(applied - {migration.number for migration in known})
    if ahead:
        message = (
            f"the schema is ahead: this database has migration {ahead[-1]:04}, this version of Wakeful knows "
            f"{known[-1].number:04} at most. Install the newer Wakeful that migrated it"
        )
        raise SchemaMismatch(message)
    return [migration for migration in known if migration.number not in applied]


def refuse_behind(pending: list[Migration]) -> None:
    """SchemaMismatch when something is still to be applied."""
    if pending:
        names = ", ".join(f"{migration.number:04}_{migration.name}" for migration in pending)
        message = f"the schema is behind: {names} still to be applied. Run `wakeful migrate` with this store first"
        raise SchemaMismatch(message)
