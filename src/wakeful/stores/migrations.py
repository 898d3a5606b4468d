"""Numbered SQL files that make the schema, upwards only. SQLite applies them automatically, PostgreSQL on `wakeful migrate`.

A file either expands or contracts. An expanding file (the default) only adds: processes that do not know it keep working and may be
restarted. A contracting file removes something, and its first line says which code can work without it:

    -- contract: needs 0012          processes must know at least 0012; `wakeful migrate` waits for older ones to stop

The database stores the digest of each applied file and what the file needs, so that older code, which does not have the file, can tell
whether it may continue.
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
# Separate from the ledger, because older versions write and read the ledger. A row without `finished_at` is a half-done migration:
# its tables are changed, its indexes are still being built.
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
        """The lowest migration that code must know to work on the schema after this one; 0: any code can."""
        found = _CONTRACT.search(self.sql)
        return int(found[1]) if found else 0

    @property
    def contracts(self) -> bool:
        return self.needs > 0


@dataclass(frozen=True, slots=True)
class Applied:
    """A migration according to the database. For migrations applied before details were kept, only the name is known."""

    number: int
    name: str
    digest: str | None = None
    needs: int | None = None
    finished: bool = True

    @classmethod
    def of(cls, row: Sequence[Any]) -> Applied:
        """From a row of `migration_ledger`."""
        number, name, digest, needs, finished = row
        return cls(number, name, digest, needs, finished=bool(finished))

    @property
    def label(self) -> str:
        return f"{self.number:04}_{self.name}"


@dataclass(frozen=True, slots=True)
class Standing:
    """A database's schema compared with this code."""

    known: Sequence[Migration]
    applied: Sequence[Applied]
    pending: Sequence[Migration] = field(default_factory=list)
    ahead: Sequence[Applied] = field(default_factory=list)

    @property
    def schema(self) -> int:
        return max((one.number for one in self.applied), default=0)

    @property
    def missing(self) -> list[Migration]:
        """Migrations that this code needs. A contracting one is not among them: the code works before and after it."""
        return [migration for migration in self.pending if not migration.contracts]

    @property
    def changed(self) -> list[Applied]:
        """Migrations that were applied with a different text than this version has."""
        digests = {migration.number: migration.digest for migration in self.known}
        return [one for one in self.applied if one.digest and digests.get(one.number, one.digest) != one.digest]

    @property
    def note(self) -> str | None:
        """What is unusual about a schema that this code can work with."""
        if self.ahead:
            return (
                f"the schema is ahead ({self.schema:04}; this process knows {self.known[-1].number:04}) and compatible: "
                "this process keeps working; restart it with the newer version when convenient"
            )
        if self.pending:
            return f"{_labels(self.pending)} waits until no older process is running; then `wakeful migrate` applies it"
        return None

    def refuse_behind(self) -> None:
        """Raise SchemaMismatch if a migration is missing."""
        if self.missing:
            message = (
                f"the schema is behind: {_labels(self.missing)} still to be applied. "
                "Run `wakeful migrate` with this store first"
            )
            raise SchemaMismatch(message)


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a migration waits for a lock each time, while other sessions queue behind it, and in total."""

    lock: Microseconds = 2 * SECOND  # longer than deadlock_timeout: by then an autovacuum has been cancelled
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
    """The number of the last migration that this code knows, the same for both databases."""
    return migrations("sqlite")[-1].number


def standing(dialect: Dialect, applied: Iterable[Applied]) -> Standing:
    """Compare a database with this code. Raises SchemaMismatch if it has a migration that this code cannot work with."""
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
    """The message when a contracting migration has to wait for an older process."""
    return (
        f"{migration.label} is postponed: it removes something that process {process} ({host}, pid {pid}) uses, whose code knows "
        f"{knows:04} but not {migration.needs:04}. Stop that process or deploy the newer version there, then migrate again"
    )


def _labels(pending: Sequence[Migration]) -> str:
    return ", ".join(migration.label for migration in pending)
