"""`sqlite_changes(path, table=…)`: wake when rows of a SQLite table change, by any program.

Triggers in the file write each change into a table (table.py), in the transaction of the change. They are created when the app first
runs. Rows that existed before are not changes.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wakeful.clock import Duration, Microseconds, duration
from wakeful.connect.rows.on_rows import OnRows
from wakeful.connect.rows.rows import Rows, read_operations
from wakeful.connect.rows.telling import RowEvents, RowSelection, one_each
from wakeful.errors import ConfigError
from wakeful.settings import sqlite_path
from wakeful.triggers.mapping import Mapping
from wakeful.triggers.options import refuse_unknown_options
from wakeful.triggers.source import Context, Reader, SourceTrouble

POLL = "50ms"


@dataclass(frozen=True, slots=True)
class SqliteChanges(OnRows):
    """Rows of a table in a SQLite file."""

    path: Path
    poll: Microseconds

    @property
    def shared(self) -> tuple[object, ...]:
        """All triggers on one file share one reader."""
        return "sqlite changes", str(self.path)

    def reader(self, triggers: Sequence[Any], context: Context) -> Reader:
        from wakeful.connect.sqlite.reader import SqliteReader

        parts = one_each(one.rows for one in triggers)
        return SqliteReader(self.rows.place, self.path, parts, context, poll=min(one.poll for one in triggers))

    async def problems(self) -> list[str]:
        return await asyncio.to_thread(self._problems)

    def _problems(self) -> list[str]:
        from wakeful.connect.sqlite.file import FileError, connect, trouble
        from wakeful.connect.sqlite.table import look

        where = f"sqlite_changes {self.rows.place}"
        try:
            file = connect(self.path, where, reading=True)
            try:
                look(file, self.rows.table, where=where, needed=RowEvents([self.rows]).needed(self.rows.table))
            finally:
                file.close()
        except SourceTrouble as error:
            return [str(error)]
        except FileError as error:
            return [str(trouble(where, self.path, error))]
        if not os.access(self.path, os.W_OK) or not os.access(self.path.parent, os.W_OK):
            return [f"{where}: {self.path} is not writable: let this account write to the file and its folder"]
        return []


@refuse_unknown_options
def sqlite_changes(
    path: str | os.PathLike[str],
    *,
    table: str,
    operations: str | Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    data: Mapping | None = None,
    poll: Duration = POLL,
) -> SqliteChanges:
    """Wake when rows of a table in a SQLite file are inserted, updated or deleted.

    `operations` are "insert", "update", "delete" or several of them; `columns` limits the columns in the event, and an update that
    changes none of them is not an event; `where` is a CEL condition on the event, `data` replaces the data that the agent gets.
    `poll` is how often the file is checked.
    """
    shown = f"sqlite_changes(table={table!r})"
    file, place = read_path(path, where=shown)
    names = columns if columns is None or isinstance(columns, str) else tuple(columns)
    part = Rows("sqlite", table, read_operations(operations, where=shown), names, where, data, place)  # type: ignore[arg-type]  # Rows checks it
    return on_file(part, file, poll, where=shown)


def on_file(part: RowSelection, file: Path, poll: Duration, *, where: str) -> SqliteChanges:
    try:
        often = duration(poll)
    except (ValueError, TypeError) as error:
        message = f'{where}: poll must be a duration, like "50ms", not {poll!r}'
        raise ConfigError(message) from error
    if often <= 0:
        message = f'{where}: poll must be longer than zero, like "50ms"'
        raise ConfigError(message)
    return SqliteChanges(part, file, often)


def read_path(path: str | os.PathLike[str], *, where: str) -> tuple[Path, str]:
    """The file, and its name in events: as it was written, so that moving a folder does not change the source."""
    if not isinstance(path, str | os.PathLike) or not str(path).strip():
        message = f'{where}: the first argument is the path of a SQLite file, like "shop.db", not {path!r}'
        raise ConfigError(message)
    written = os.fspath(path)
    if written.startswith("sqlite:"):
        written = str(sqlite_path(written))
    elif "://" in written:
        scheme = written.partition("://")[0]
        message = f"{where}: {scheme}:// is not supported here: name a SQLite file, or use postgresql://…"
        raise ConfigError(message)
    if ":memory:" in written:
        message = f"{where}: a database in memory is not visible to other connections: name a file"
        raise ConfigError(message)
    file = Path(os.path.normpath(written))
    return file.absolute(), str(file).lstrip("/")
