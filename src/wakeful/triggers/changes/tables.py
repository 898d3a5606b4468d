"""`postgres_changes(…, via="triggers")`: rows of a PostgreSQL table, heard of by a trigger that writes each change into a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from wakeful.errors import ConfigError
from wakeful.secrets import Secret, reveal
from wakeful.triggers.changes.on_rows import OnRows
from wakeful.triggers.changes.postgres_database import connect, place_of, trouble, troubles
from wakeful.triggers.changes.postgres_table import PUBLIC, look, refused
from wakeful.triggers.changes.rows import Rows, read_operations
from wakeful.triggers.changes.telling import Telling, one_each
from wakeful.triggers.mapping import Mapping
from wakeful.triggers.source import Context, Reader, SourceTrouble


@dataclass(frozen=True, slots=True)
class TableChanges(OnRows):
    """Rows of a table in PostgreSQL, through a change table."""

    dsn: Secret

    @property
    def shared(self) -> tuple[object, ...]:
        """All triggers on one database are read by one reader."""
        return "change table", self.rows.place

    def reader(self, triggers: Sequence[Any], context: Context) -> Reader:
        from wakeful.triggers.changes.table_reader import TableReader

        return TableReader(self.rows.place, self.dsn, one_each(one.rows for one in triggers), context)

    async def problems(self) -> list[str]:
        where = f"postgres_changes {self.rows.place}"
        try:
            connection = await connect(reveal(self.dsn, needed_by=where), where, application="wakeful check")
            try:
                await look(connection, "", Telling([self.rows]), where=where)
                fault = await refused(connection, self.rows.table, where=where)
            finally:
                await connection.close(timeout=2)
        except (SourceTrouble, ConfigError) as error:
            return [str(error)]
        except troubles() as error:
            return [str(trouble(where, error))]
        return [] if fault is None else [fault]


def table_changes(
    dsn: Secret,
    *,
    table: str,
    operations: str | Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    data: Mapping | None = None,
) -> TableChanges:
    """What `postgres_changes(…, via="triggers")` gives."""
    shown = f"postgres_changes(table={table!r})"
    names = columns if columns is None or isinstance(columns, str) else tuple(columns)
    named = table.removeprefix(f"{PUBLIC}.") if isinstance(table, str) else table
    place = place_of(dsn, where=shown)
    part = Rows("postgres", named, read_operations(operations, where=shown), names, where, data, place)  # type: ignore[arg-type]  # Rows says what is wrong with it
    return TableChanges(part, dsn)
