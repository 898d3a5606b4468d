"""The plan of `wakeful migrate` for a store in use: each statement, the lock it takes, and for about how long."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from wakeful.clock import SECOND, Microseconds
from wakeful.stores.migrations import Standing
from wakeful.stores.statements import Statement, Work, read, split

if TYPE_CHECKING:
    from wakeful.stores.database import Database

WHOLE_FILE = "the whole file"
# A lower bound of what a server does in a second.
ROWS_PER_SECOND: dict[Work, int] = {"index": 300_000, "scan": 1_000_000, "rows": 50_000}


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """One statement of one migration."""

    migration: str
    statement: str
    table: str | None
    lock: str | None
    work: Work
    rows: int | None = None
    bytes: int | None = None
    microseconds: Microseconds = 0


async def plan(database: Database, schema: Standing) -> list[PlannedStep]:
    """The steps in order. On SQLite all of them are one transaction, which locks the whole file."""
    if database.dialect == "sqlite":
        return [
            PlannedStep(migration.label, statement, None, WHOLE_FILE, "moment")
            for migration in schema.pending
            for statement in split(migration.sql)
        ]
    half_done = {one.number for one in schema.applied if not one.finished}
    made: set[str] = set()
    found: list[tuple[str, Statement]] = []
    for migration in schema.pending:
        statements = read(migration.sql, made)
        made |= {one.makes for one in statements if one.makes}
        ordered = [one for one in statements if not one.later and migration.number not in half_done]
        ordered += [one for one in statements if one.later]
        found += [(migration.label, one) for one in ordered]
    tables = sorted({one.table for _, one in found if one.table})
    sizes = {name: (rows, size) for name, rows, size in await database.fetch("table_sizes", tables)}
    return [planned(label, one, sizes.get(one.table or "")) for label, one in found]


def planned(label: str, statement: Statement, size: tuple[int, int] | None) -> PlannedStep:
    rows, size_in_bytes = size or (None, None)
    pace = ROWS_PER_SECOND.get(statement.work)
    takes = round(rows / pace * SECOND) if rows and pace else 0
    return PlannedStep(
        label, statement.sql, statement.table, statement.lock, statement.work, rows, size_in_bytes, takes
    )
