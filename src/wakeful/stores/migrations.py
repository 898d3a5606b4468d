"""Numbered SQL files that make the schema, up only. On SQLite they run by themselves, on PostgreSQL when asked to.

A file either expands or contracts. An expanding one (the default) only adds: processes that do not know it go on working,
and may be restarted. A contracting one takes something away, and its first line says which code can live with that:

    -- contract: needs 0012          processes must know 0012 at least; `wakeful migrate` waits for older ones to stop

With each file that was applied the database keeps the digest of its text and what it needs, so that older code, which has
never seen the file, can tell whether it may go on.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any

from wakeful.clock import SECOND, Microseconds
from wakeful.errors import SchemaMismatch
from wakeful.stores.queries import Dialect

CREATE_LEDGER = "create table if not exists wakeful_migration (number bigint primary key, name text not null, applied_at bigint not null)"
# Beside the ledger and not in it: older versions write and read that one. A row here without an end is of a migration that is
# half done: its tables are changed, its indexes are still being built.
CREATE_DETAILS = (
    "create table if not exists wakeful_migration_detail "
    "(number bigint primary key, name text not null, digest text not null, needs bigint not null, finished_at bigint)"
)
Told = Callable[[str], None]
_FILE = re.compile(r"^(\d{4})_(\w+)\.sql$")
_CONTRACT = re.compile(r"^-- contract: needs (\d{4})$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Migration:
    """One numbered file."""

    number: int
    name: str
    sql: str

    @property
    def label(self) -> str:
        return f"{self.number:04}_{self.name}"

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.sql.encode()).hexdigest()

    @property
    def needs(self) -> int:
        """The lowest migration that code must know to work on the schema that this one leaves; 0: any code may."""
        found = _CONTRACT.search(self.sql)
        return int(found[1]) if found else 0

    @property
    def contracts(self) -> bool:
        return self.needs > 0


@dataclass(frozen=True, slots=True)
class Applied:
    """What a database says about one migration. Of those that were applied before details were kept, it knows the name alone."""

    number: int
    name: str
    digest: str | None = None
    needs: int | None = None
    finished: bool = True

    @classmethod
    def of(cls, row: Sequence[Any]) -> Applied:
        """Out of a row of `migration_ledger`."""
        number, name, digest, needs, finished = row
        return cls(number, name, digest, needs, finished=bool(finished))

    @property
    def label(self) -> str:
        return f"{self.number:04}_{self.name}"


@dataclass(frozen=True, slots=True)
class Standing:
    """How a database's schema and this code stand to each other."""

    known: Sequence[Migration]
    applied: Sequence[Applied]
    pending: Sequence[Migration] = field(default_factory=list)
    ahead: Sequence[Applied] = field(default_factory=list)

    @property
    def schema(self) -> int:
        return max((one.number for one in self.applied), default=0)

    @property
    def missing(self) -> list[Migration]:
        """What this code cannot work without. A contracting migration is none of it: the code works before and after."""
        return [migration for migration in self.pending if not migration.contracts]

    @property
    def changed(self) -> list[Applied]:
        """Migrations that were applied with another text than this version has."""
        digests = {migration.number: migration.digest for migration in self.known}
        return [one for one in self.applied if one.digest and digests.get(one.number, one.digest) != one.digest]

    @property
    def note(self) -> str | None:
        """What is unusual about it, if it can be worked with."""
        if self.ahead:
            return (
                f"the schema is ahead ({self.schema:04}; this process knows {self.known[-1].number:04}) and compatible: "
                "this process goes on; restart it with the newer version when it suits"
            )
        if self.pending:
            return f"{_labels(self.pending)} waits until no older process is running; then `wakeful migrate` applies it"
        return None

    def refuse_behind(self) -> None:
        """SchemaMismatch when something is missing."""
        if self.missing:
            message = (
                f"the schema is behind: {_labels(self.missing)} still to be applied. "
                "Run `wakeful migrate` with this store first"
            )
            raise SchemaMismatch(message)


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a migration waits for a lock at a time (others queue behind it meanwhile), and in all."""

    lock: Microseconds = 2 * SECOND  # longer than deadlock_timeout: by then an autovacuum has been told to go
    whole: Microseconds = 600 * SECOND


def migrations(dialect: Dialect) -> list[Migration]:
    """All migrations of a database, in order."""
    return list(_read(dialect))


@cache
def _read(dialect: Dialect) -> tuple[Migration, ...]:
    folder = resources.files("wakeful.stores") / "sql" / dialect
    found = [
        Migration(int(match[1]), match[2], file.read_text(encoding="utf-8"))
        for file in folder.iterdir()
        if (match := _FILE.match(file.name))
    ]
    return tuple(sorted(found, key=lambda migration: migration.number))


def newest() -> int:
    """The number of the last migration that this code knows: the same for both databases."""
    return migrations("sqlite")[-1].number


def standing(dialect: Dialect, applied: Iterable[Applied]) -> Standing:
    """Compare a database with this code. SchemaMismatch when it has a migration that this code cannot work with."""
    applied = sorted(applied, key=lambda one: one.number)
    known = migrations(dialect)
    numbers = {migration.number for migration in known}
    done = {one.number for one in applied if one.finished}
    ahead = [one for one in applied if one.number not in numbers]
    excluding = [one for one in ahead if one.needs is None or one.needs > known[-1].number]
    if excluding:
        needs = excluding[-1].needs
        why = "" if needs is None else f" ({excluding[-1].label} needs a version that knows {needs:04})"
        message = (
            f"the schema is ahead: this database has migration {ahead[-1].number:04}, this version of Wakeful knows "
            f"{known[-1].number:04} at most{why}. Install the newer Wakeful that migrated it"
        )
        raise SchemaMismatch(message)
    return Standing(known, applied, [migration for migration in known if migration.number not in done], ahead)


def held_back(migration: Migration, process: str, host: str, pid: int, knows: int) -> str:
    """Why a contracting migration is not applied."""
    return (
        f"{migration.label} is left for later: it takes away what process {process} ({host}, pid {pid}) uses, whose code knows "
        f"{knows:04} and not {migration.needs:04}. Stop it, or deploy the newer version there, then migrate again"
    )


def _labels(pending: Sequence[Migration]) -> str:
    return ", ".join(migration.label for migration in pending)
