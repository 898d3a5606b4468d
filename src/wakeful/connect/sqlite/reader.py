"""Reads the change table of one SQLite file, on a thread and a connection of its own.

`PRAGMA data_version` changes when another connection has committed; it is checked every `poll` and costs microseconds. Rows are
deleted once they are stored, a thousand at a time, while nothing else comes: the file belongs to the application and is never locked
for long. There is no separate cursor: a row that is read again after a crash has the same mark, so it is a duplicate.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from pydantic_core import from_json

from wakeful.clock import Microseconds, seconds
from wakeful.connect.rows.change import OPERATIONS, RowChange
from wakeful.connect.rows.telling import RowEvents, RowSelection, changed_columns
from wakeful.connect.sqlite.file import File, FileError, connect, identity, install, trouble, writing
from wakeful.connect.sqlite.literals import plain_value, read_literals
from wakeful.connect.sqlite.table import quoted, steps
from wakeful.model import Event
from wakeful.stored_errors import words_of
from wakeful.triggers.source import Batch, Context, Reader, SourceTrouble, Unreadable

R = TypeVar("R")

MOST = 1_000
TIDY_PATIENCE = 50  # milliseconds
TIDY_AFTER = 1.0
LOCKED_IS_TROUBLE_AFTER = 30.0
READ = """
select id, mark, table_name, operation, shape, cast(key as blob), cast(old as blob), cast(new as blob), changed_at, cause
from wakeful_change where app = ? and id > ?{others} order by id limit ?
"""
DELETE = "delete from wakeful_change where id in (select id from wakeful_change where app = ? and id <= ?{others} order by id limit ?)"


@dataclass(slots=True)
class ReadUpTo:
    """The last row of a batch, and the rows of outbox tables to delete with it."""

    last: int
    gone: list[tuple[str, Any]] = field(default_factory=list)  # table, id


class SqliteReader(Reader):
    kind = "sqlite"

    def __init__(
        self, place: str, path: Path, parts: Sequence[RowSelection], context: Context, *, poll: Microseconds
    ) -> None:
        super().__init__(f"sqlite/{place}")
        self._path = path
        self._row_events = RowEvents(parts)
        self._context = context
        self._poll = seconds(poll)
        self._where = f"sqlite_changes {place}"
        self._thread: ThreadPoolExecutor | None = None
        self._closing = threading.Event()
        self._connection: File | None = None
        self._forget()

    def _forget(self) -> None:
        self._read = 0  # the last row read
        self._stored: int | None = None  # rows up to this one may be deleted
        self._gone: list[tuple[str, Any]] = []  # stored rows of outbox tables, to be deleted
        self._version = self._schema = -1
        self._file: tuple[int, int] | None = None
        self._full = False
        self._faults: dict[str, str] = {}  # by table; its rows are left until the table can be read
        self._tidied_at = 0.0
        self._locked_since: float | None = None

    # the contract

    async def open(self, cursor: str | None) -> None:  # noqa: ARG002 the rows themselves are the cursor
        await self.close()
        self._forget()
        self._closing.clear()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="wakeful-changes")
        await self._on_thread(self._open)

    async def read(self, within: float) -> Batch | None:
        rows = await self._on_thread(lambda: self._wait(within))
        return self._batch(rows) if rows else None

    async def acknowledge(self, batch: Batch) -> None:
        if isinstance(batch.receipt, ReadUpTo):
            self._stored = batch.receipt.last
            self._gone += batch.receipt.gone

    async def close(self) -> None:
        thread, self._thread = self._thread, None
        if thread is None:
            return
        self._closing.set()
        try:
            await asyncio.shield(asyncio.get_running_loop().run_in_executor(thread, self._close))
        finally:
            thread.shutdown(wait=False)

    @property
    def busy(self) -> bool:
        return self._full

    @property
    def concern(self) -> str | None:
        """Tables that cannot be watched while others can."""
        return "; ".join(self._faults.values()) or None

    def read_again(self, raw: bytes, headers: Mapping[str, str]) -> list[Event]:
        return self._row_events.read_again(raw, headers)

    # on the thread

    async def _on_thread(self, work: Callable[[], R]) -> R:
        if self._thread is None:
            message = f"{self._where}: not open"
            raise SourceTrouble(message)
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        except FileError as error:
            raise trouble(self._where, self._path, error) from error

    def _open(self) -> None:
        file = self._connection = connect(self._path, self._where)
        if file.value("pragma journal_mode") == "wal":
            file.execute("pragma synchronous = normal")  # a deletion lost in a power cut is repeated
        self._install(file)

    def _close(self) -> None:
        file, self._connection = self._connection, None
        if file is not None:
            with contextlib.suppress(FileError):
                self._tidy(file)
            file.close()

    def _install(self, file: File) -> None:
        """Create the triggers as needed, and begin at the first row: the change table may be a new one."""
        doing, self._faults = steps(file, self._context.app, self._row_events, where=self._where)
        if doing:
            install(file, self._context.app, self._row_events, where=self._where)
        self._file = identity(self._path)
        self._schema = int(file.value("pragma schema_version"))
        self._read, self._stored = 0, None

    def _wait(self, within: float) -> list[Any]:
        """The next rows, as soon as there are some."""
        ends = time.monotonic() + within
        file = self._connection
        if file is None:
            return []
        while True:
            try:
                if self._full or time.monotonic() - self._tidied_at > TIDY_AFTER:
                    self._tidy(file)
                rows = self._look(file)
            except FileError as error:
                rows = []
                self._is_locked(error)
            else:
                self._locked_since = None
            rest = ends - time.monotonic()
            if rows or rest <= 0 or self._closing.wait(min(self._poll, rest)):
                return rows

    def _look(self, file: File) -> list[Any]:
        if identity(self._path) != self._file:
            message = f"{self._where}: {self._path} is missing, or was replaced by another file; it is reopened"
            raise SourceTrouble(message)
        version = int(file.value("pragma data_version"))
        if version == self._version and not self._full:
            return []
        if int(file.value("pragma schema_version")) != self._schema:
            self._install(file)
        rows = file.execute(self._sql(READ), (self._context.app, self._read, *self._faults, MOST))
        self._version = version
        self._full = len(rows) == MOST
        if rows:
            self._read = rows[-1][0]
        return rows

    def _tidy(self, file: File) -> None:
        """Delete stored rows; if the file is locked, later."""
        if self._stored is None:
            return
        try:
            with writing(file, TIDY_PATIENCE):
                for table, value in self._gone[:MOST]:
                    file.execute(f"delete from {quoted(table)} where id = ?", (value,))
                file.execute(self._sql(DELETE), (self._context.app, self._stored, *self._faults, MOST))
                all_of_it = file.value("select changes()") < MOST and len(self._gone) <= MOST
        except FileError as error:
            if not error.busy:
                raise
            return
        del self._gone[:MOST]
        if all_of_it:
            self._stored = None
            self._tidied_at = time.monotonic()

    def _sql(self, query: str) -> str:
        marks = ", ".join("?" * len(self._faults))
        return query.format(others=f" and table_name not in ({marks})" if marks else "")

    def _is_locked(self, error: FileError) -> None:
        now = time.monotonic()
        self._locked_since = self._locked_since or now
        if not error.busy or now - self._locked_since > LOCKED_IS_TROUBLE_AFTER:
            raise error

    # from rows to events

    def _batch(self, rows: Sequence[Any]) -> Batch:
        read = ReadUpTo(rows[-1][0])
        batch = Batch(receipt=read, lag=max(0, self._context.clock.now() - rows[-1][8]))
        for row in rows:
            try:
                change, identifier = change_of(row)
            except (ValueError, TypeError) as error:
                reason = f"row {row[0]} of wakeful_change is unreadable: {words_of(error)}"
                raw = b"\n".join(part or b"" for part in row[5:8])
                batch.unreadable.append(Unreadable(raw, reason, {"table": str(row[2]), "change": str(row[1])}))
                continue
            self._row_events.tell(change, batch)
            if self._row_events.deletes(change):
                read.gone.append((change.table, identifier))
        return batch


def change_of(row: Sequence[Any]) -> tuple[RowChange, Any]:
    """The change in a row of the change table, and the value of its column `id` as SQLite has it."""
    _, mark, table, operation, shape, key, old, new, changed_at, cause = row
    if operation not in OPERATIONS:
        message = f"unknown operation {operation!r}"
        raise ValueError(message)
    names = from_json(shape)
    before, after = (None if one is None else _row(names["columns"], one) for one in (old, new))
    plain_before, plain_after = _plain(before), _plain(after)
    changed = None if plain_before is None or plain_after is None else changed_columns(plain_before, plain_after)
    change = RowChange(
        table,
        operation,
        mark,
        {name: plain_value(value) for name, value in _row(names["key"], key).items()},
        plain_after,
        plain_before,
        changed,
        changed_at,
        cause,
        {name: "bytes" for name, value in (after or before or {}).items() if isinstance(value, bytes)},
    )
    return change, (after or before or {}).get("id")


def _row(names: list[str], written: bytes) -> dict[str, Any]:
    return dict(zip(names, read_literals(written.decode()), strict=True))


def _plain(row: dict[str, Any] | None) -> dict[str, Any] | None:
    return None if row is None else {name: plain_value(value) for name, value in row.items()}
