"""A SQLite file that belongs to somebody else: opened as it is, held for moments only, and its errors in words.

Two builds of SQLite in one process must never have the same file open: on POSIX, when one of them closes it, the locks of the other
are gone. Agents and their libraries write to their files by Python's own sqlite3, so that is what a file is read by; only if it is
the store's own, which apsw has open here, apsw reads it.
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
    from wakeful.connect.rows.telling import Telling

PATIENCE = 2_000  # milliseconds
# What SQLite answers, by the numbers of its C library.
BUSY, LOCKED = 5, 6
_LOCKED = "is locked by another process: it is tried again; end the transaction that holds it"
_READ_ONLY = "may not be written to: let this account write to the file and its folder, triggers fill a table there"
WORDS = {
    3: _READ_ONLY,
    8: _READ_ONLY,
    BUSY: _LOCKED,
    LOCKED: _LOCKED,
    11: "is damaged ({error}): restore it from a copy",
    13: "cannot grow: its disk is full",
    14: "cannot be opened ({error}): may this account read and write it and its folder?",
    26: "is no SQLite database, or an encrypted one",
}


class FileError(Exception):
    """What SQLite says of the file."""

    def __init__(self, code: int, words: str) -> None:
        super().__init__(words)
        self.code = code & 0xFF

    @property
    def busy(self) -> bool:
        """Another process does something to the file, and will have done it soon."""
        return self.code in {BUSY, LOCKED}


class File:
    """One connection to it, used by one thread at a time."""

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
        """How long a statement waits for others."""
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
    """The file, which must be there: one that is made now would be watched for nothing."""
    if not path.is_file():
        message = (
            f"{where}: there is no file {path}: it is looked for again; the application that writes to it makes it"
        )
        raise SourceTrouble(message)
    try:
        file = File(path, reading=reading)
        file.value("pragma schema_version")  # is it a database at all?
    except FileError as error:
        raise trouble(where, path, error) from error
    return file


@contextlib.contextmanager
def writing(file: File, patience: int = PATIENCE) -> Iterator[None]:
    """A transaction that waits so many milliseconds for others, and is undone when something fails in it."""
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


def install(file: File, app: str, telling: Telling, *, where: str) -> None:
    """Make table and triggers as they should be. Looked at again inside: another process may have been first."""
    with writing(file):
        for step in steps(file, app, telling, where=where)[0]:
            file.execute(step)


def identity(path: Path) -> tuple[int, int] | None:
    """By which a file is told from another one in its place."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def trouble(where: str, path: Path, error: FileError) -> SourceTrouble:
    words = WORDS.get(error.code, "cannot be read ({error})")
    return SourceTrouble(f"{where}: {path} {words.format(error=error)}")
