"""A SQLite file that belongs to somebody else: opened as it is, held for moments only, and its errors in words."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import apsw

from wakeful.errors import words_of
from wakeful.triggers.changes.sqlite_table import steps
from wakeful.triggers.source import SourceTrouble

if TYPE_CHECKING:
    from wakeful.triggers.changes.telling import Telling

PATIENCE = 2_000  # milliseconds
# What another process does to the file, and will have done soon.
BUSY = (apsw.BusyError, apsw.LockedError)


def connect(path: Path, where: str, *, reading: bool = False) -> apsw.Connection:
    """The file, which must be there: one that is made now would be watched for nothing."""
    if not path.is_file():
        message = (
            f"{where}: there is no file {path}: it is looked for again; the application that writes to it makes it"
        )
        raise SourceTrouble(message)
    flags = apsw.SQLITE_OPEN_READONLY if reading else apsw.SQLITE_OPEN_READWRITE
    try:
        connection = apsw.Connection(str(path), flags=flags)
        connection.set_busy_timeout(PATIENCE)
        connection.pragma("schema_version")  # is it a database at all?
    except apsw.Error as error:
        raise trouble(where, path, error) from error
    return connection


@contextlib.contextmanager
def writing(connection: apsw.Connection, patience: int = PATIENCE) -> Iterator[None]:
    """A transaction that waits so many milliseconds for others, and is undone when something fails in it."""
    connection.set_busy_timeout(patience)
    try:
        connection.execute("begin immediate")
        yield
        connection.execute("commit")
    finally:
        if connection.in_transaction:
            with contextlib.suppress(apsw.Error):
                connection.execute("rollback")
        connection.set_busy_timeout(PATIENCE)


def install(connection: apsw.Connection, app: str, telling: Telling, *, where: str) -> None:
    """Make table and triggers as they should be. Looked at again inside: another process may have been first."""
    with writing(connection):
        for step in steps(connection, app, telling, where=where):
            connection.execute(step)


def identity(path: Path) -> tuple[int, int] | None:
    """By which a file is told from another one in its place."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def trouble(where: str, path: Path, error: apsw.Error) -> SourceTrouble:
    match error:
        case apsw.BusyError() | apsw.LockedError():
            words = "is locked by another process: it is tried again; end the transaction that holds it"
        case apsw.ReadOnlyError() | apsw.PermissionsError():
            words = "may not be written to: let this account write to the file and its folder, its triggers fill a table there"
        case apsw.NotADBError():
            words = "is no SQLite database, or an encrypted one"
        case apsw.CantOpenError():
            words = f"cannot be opened ({words_of(error)}): may this account read and write it and its folder?"
        case apsw.CorruptError():
            words = f"is damaged ({words_of(error)}): restore it from a copy"
        case apsw.FullError():
            words = "cannot grow: its disk is full"
        case _:
            words = f"cannot be read: {words_of(error)}"
    return SourceTrouble(f"{where}: {path} {words}")
