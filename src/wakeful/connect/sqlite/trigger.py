"""`sqlite_changes(path, table=…)`: wake when rows of a SQLite table change, whoever changes them.

Triggers in the file write each change into a table beside it (sqlite_table.py), in the transaction that makes the change; they are
made when the app first runs. What was in the table before is no change.
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
from wakeful.connect.rows.telling import Part, Telling, one_each
from wakeful.errors import ConfigError
from wakeful.settings import sqlite_path
from wakeful.triggers.mapping import Mapping
from wakeful.triggers.options import knows_its_options
from wakeful.triggers.source import Context, Reader, SourceTrouble

POLL = "50ms"


@dataclass(frozen=True, slots=True)
class SqliteChanges(OnRows):
    """Rows of a table in a SQLite file."""

    path: Path
    poll: Microseconds

    @property
    def shared(self) -> tuple[object, ...]:
        """All triggers on one file are read by one reader."""
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
                look(file, self.rows.table, where=where, needed=Telling([self.rows]).needed(self.rows.table))
            finally:
                file.close()
        except SourceTrouble as error:
            return [str(error)]
        except FileError as error:
            return [str(trouble(where, self.path, error))]
        if not os.access(self.path, os.W_OK) or not os.access(self.path.parent, os.W_OK):
            return [f"{where}: {self.path} may not be written to: let this account write to the file and its folder"]
        return []


@knows_its_options
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

    `operations` are "insert", "update", "delete" or several of them; `columns` the only ones that are told, and an update that
    changes none of them is no event; `where` is a CEL condition on the event, `data` what the agent gets instead. `poll` is how
    often the file is looked at.
    """
    shown = f"sqlite_changes(table={table!r})"
    file, place = read_path(path, where=shown)
    names = columns if columns is None or isinstance(columns, str) else tuple(columns)
    part = Rows("sqlite", table, read_operations(operations, where=shown), names, where, data, place)  # type: ignore[arg-type]  # Rows says what is wrong with it
    return on_file(part, file, poll, where=shown)


def on_file(part: Part, file: Path, poll: Duration, *, where: str) -> SqliteChanges:
    try:
        often = duration(poll)
    except (ValueError, TypeError) as error:
        message = f'{where}: poll must be a duration, like "50ms", not {poll!r}'
        raise ConfigError(message) from error
    if often <= 0:
        message = f'{where}: poll must be longer than nothing, like "50ms"'
        raise ConfigError(message)
    return SqliteChanges(part, file, often)


def read_path(path: str | os.PathLike[str], *, where: str) -> tuple[Path, str]:
    """The file, and how it is called in the events: as it was named, so that a folder that moves changes no source."""
    if not isinstance(path, str | os.PathLike) or not str(path).strip():
        message = f'{where}: the first argument is the path of a SQLite file, like "shop.db", not {path!r}'
        raise ConfigError(message)
    written = os.fspath(path)
    if written.startswith("sqlite:"):
        written = str(sqlite_path(written))
    elif "://" in written:
        scheme = written.partition("://")[0]
        message = f"{where}: {scheme}:// is no address that can be read: name a SQLite file, or postgresql://… where that is meant"
        raise ConfigError(message)
    if ":memory:" in written:
        message = f"{where}: a database in memory can be seen by nobody else: name a file"
        raise ConfigError(message)
    file = Path(os.path.normpath(written))
    return file.absolute(), str(file).lstrip("/")
