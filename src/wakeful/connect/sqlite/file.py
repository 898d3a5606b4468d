"""A SQLite file of another application: opened as it is, locked only for moments, and its errors in words.

Two builds of SQLite in one process must never have the same file open: on POSIX, when one of them closes it, the locks of the other
are lost. Agents and their libraries use Python's own sqlite3, so files are read with that. Only the store's own file, which apsw has
open here, is read with apsw.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import apsw

from wakeful.connect.sqlite.table import steps
from wakeful.stored_errors import words_of
from wakeful.triggers.source import SourceTrouble

if TYPE_CHECKING:
    from wakeful.connect.rows.telling import RowEvents

PATIENCE = 2_000  # milliseconds
# SQLite's result codes.
BUSY, LOCKED = 5, 6
_LOCKED = "is locked by another process; retrying. End the transaction that holds the lock"
_READ_ONLY = "is not writable: let this account write to the file and its folder, because triggers fill a table there"
WORDS = {
    3: _READ_ONLY,
    8: _READ_ONLY,
    BUSY: _LOCKED,
    LOCKED: _LOCKED,
    11: "is damaged ({error}): restore it from a copy",
    13: "cannot grow: its disk is full",
    14: "cannot be opened ({error}): check that this account may read and write it and its folder",
    26: "is not a SQLite database, or is encrypted",
}


class FileError(Exception):
    """An error of SQLite about the file."""

    def __init__(self, code: int, words: str) -> None:
        super().__init__(words)
        self.code = code & 0xFF

    @property
    def busy(self) -> bool:
        """Whether another process locks the file, probably for a short time."""
        return self.code in {BUSY, LOCKED}


class File:
    """One connection to the file, used by one thread at a time."""

    def __init__(self, path: Path, *, reading: bool = False) -> None:
        self._connection: Any
        if is_open_by_apsw(path):
            flags = apsw.SQLITE_OPEN_READONLY if reading else apsw.SQLITE_OPEN_READWRITE
            with translated():
                self._connection = apsw.Connection(str(path), flags=flags)
        else:
            address = f"file:{quote(str(path))}?mode={'ro' if reading else 'rw'}"
            with translated():
                self._connection = sqlite3.connect(
                    address, uri=True, isolation_level=None, check_same_thread=False, cached_statements=16
                )
        self.wait(PATIENCE)

    def wait(self, milliseconds: int) -> None:
        """Set how long a statement waits for locks."""
        self.execute(f"pragma busy_timeout = {milliseconds}")

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> list[Any]:
        with translated():
            return self._connection.execute(sql, tuple(parameters)).fetchall()  # type: ignore[no-any-return]  # two libraries

    def value(self, sql: str) -> Any:
        return self.execute(sql)[0][0]

    @property
    def in_transaction(self) -> bool:
        return bool(self._connection.in_transaction)

    def close(self) -> None:
        with translated():
            self._connection.close()


@contextlib.contextmanager
def translated() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise FileError(getattr(error, "sqlite_errorcode", 1), words_of(error)) from error
    except apsw.Error as error:
        raise FileError(getattr(error, "result", 1), words_of(error)) from error


def is_open_by_apsw(path: Path) -> bool:
    for one in apsw.connections():
        with contextlib.suppress(apsw.Error, OSError):
            if one.filename and path.samefile(one.filename):
                return True
    return False


def connect(path: Path, where: str, *, reading: bool = False) -> File:
    """Open an existing file: a file created now would be watched in vain."""
    if not path.is_file():
        message = f"{where}: there is no file {path}; retrying. The application that writes to it creates it"
        raise SourceTrouble(message)
    try:
        file = File(path, reading=reading)
        file.value("pragma schema_version")  # fails if it is not a database
    except FileError as error:
        raise trouble(where, path, error) from error
    return file


@contextlib.contextmanager
def writing(file: File, patience: int = PATIENCE) -> Iterator[None]:
    """A transaction that waits that many milliseconds for locks, and is rolled back on an error."""
    file.wait(patience)
    try:
        file.execute("begin immediate")
        yield
        file.execute("commit")
    finally:
        if file.in_transaction:
            with contextlib.suppress(FileError):
                file.execute("rollback")
        file.wait(PATIENCE)


def install(file: File, app: str, row_events: RowEvents, *, where: str) -> None:
    """Create table and triggers as needed. The state is checked again inside: another process may have been first."""
    with writing(file):
        for step in steps(file, app, row_events, where=where)[0]:
            file.execute(step)


def identity(path: Path) -> tuple[int, int] | None:
    """An identity that distinguishes a file from another one in its place."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def trouble(where: str, path: Path, error: FileError) -> SourceTrouble:
    words = WORDS.get(error.code, "cannot be read ({error})")
    return SourceTrouble(f"{where}: {path} {words.format(error=error)}")
