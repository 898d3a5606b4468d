"""Connections to one SQLite file, and its errors in words.

WAL, `synchronous=FULL`, a busy timeout. Each connection is used by one thread at a time. A file on a network file system is
refused.
"""

from __future__ import annotations

import time
from pathlib import Path

import apsw

from wakeful.errors import ConfigError, StoreFull, StoreUnavailable
from wakeful.private_files import make_folder, reserve
from wakeful.stores.lock_holder import locked_by
from wakeful.stores.sqlite_locks import NO_ROOM

# How long a write waits for that of another process. A caller who stores an event hears within 5 s that it cannot be stored.
BUSY_TIMEOUT_MILLISECONDS = 4_000
# Errors of SQLite when the file, the disk or another process is in the way: nothing was stored, and a retry is safe.
UNAVAILABLE = (
    apsw.FullError,
    apsw.IOError,
    apsw.BusyError,
    apsw.CantOpenError,
    apsw.ReadOnlyError,
    apsw.NoMemError,
    apsw.ProtocolError,
    apsw.LockedError,
)
NETWORK_FILE_SYSTEMS = {
    "nfs",
    "nfs4",
    "cifs",
    "smb3",
    "smbfs",
    "fuse.sshfs",
    "ceph",
    "glusterfs",
    "lustre",
    "afs",
    "gfs2",
}


class SqliteFile:
    """One file, as it is connected to."""

    def __init__(self, path: Path, busy_timeout: int) -> None:
        self.path = path
        self.busy_timeout = busy_timeout
        self.max_page_count: int | None = None

    def connect(self, *, reading: bool = False) -> apsw.Connection:
        """A new connection. StoreUnavailable if the file cannot be opened or made."""
        try:
            make_folder(self.path.parent)
            reserve(self.path)  # SQLite gives the mode of this file to its -wal and -shm
            # NOMUTEX: every connection is used by one thread at a time, so SQLite need not lock it
            flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE | apsw.SQLITE_OPEN_NOMUTEX
            connection = apsw.Connection(str(self.path), flags=flags)
            connection.set_busy_timeout(self.busy_timeout)
            self._use_wal(connection)
            connection.execute("pragma synchronous = full")
            connection.execute("pragma cache_size = -65536")
            # 16 MB: pages that change often are copied back less often
            connection.execute("pragma wal_autocheckpoint = 4000")
            if reading:
                connection.execute("pragma query_only = on")
            if self.max_page_count is not None and not reading:
                connection.execute(f"pragma max_page_count = {self.max_page_count}")
        except (apsw.Error, OSError) as error:
            message = f"cannot open {self.path}: {explain(error)}"
            raise StoreUnavailable(message) from error
        return connection

    def _use_wal(self, connection: apsw.Connection) -> None:
        """Processes that open a new file at the same time all change its mode. SQLite does not wait its busy timeout for that, but
        answers at once that another process is doing it.
        """
        ends = time.monotonic() + self.busy_timeout / 1000
        while True:
            try:
                connection.execute("pragma journal_mode = wal")
            except apsw.BusyError:
                if time.monotonic() >= ends:
                    raise
                time.sleep(0.01)
            else:
                return

    def unavailable(self, connection: apsw.Connection, error: apsw.Error) -> StoreUnavailable:
        """One of the UNAVAILABLE errors as the journal's callers get it."""
        if isinstance(error, apsw.FullError) or (
            isinstance(error, apsw.IOError) and connection.system_errno in NO_ROOM
        ):
            return StoreFull(f"{self.path}: {explain(apsw.FullError())}")
        if isinstance(error, apsw.BusyError):
            return StoreUnavailable(locked_by(self.path), locked=True)
        return StoreUnavailable(f"{self.path}: {explain(error)}")


def explain(error: BaseException) -> str:
    """An error of SQLite in words that say what to do."""
    if isinstance(error, apsw.FullError):
        return (
            "the disk is full (or the database's size limit is reached): free some space; work then resumes by itself"
        )
    if isinstance(error, apsw.BusyError):
        return "another process has held the write lock for too long"
    if isinstance(error, apsw.ReadOnlyError):
        return "the file or its folder is read-only for this user"
    if isinstance(error, apsw.CantOpenError | PermissionError):
        return f"the file cannot be opened or made ({error})"
    return str(error)


def refuse_network_file_system(path: Path) -> None:
    """ConfigError for a file on a network file system. WAL needs shared memory and honest locks: a database there gets corrupted
    sooner or later.
    """
    try:
        mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return
    target = str(path.absolute().parent)
    best = ("", "")
    for line in mounts:
        fields = line.split()
        point, kind = fields[4], fields[fields.index("-") + 1]
        inside = target == point or target.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best[0]):
            best = (point, kind)
    if best[1] in NETWORK_FILE_SYSTEMS:
        message = f"{path} is on {best[1]}: SQLite's WAL does not work there. Use a local disk, or postgresql://…"
        raise ConfigError(message)
