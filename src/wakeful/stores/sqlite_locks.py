"""The file locks of processes on one SQLite store: a restarted process takes over at once, without waiting for a lease.

Each process holds a lock on a file under its identity, in a folder beside the store. The kernel frees the lock when the process
dies. So a free lock means that its process is dead, even if its lease has not expired.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Collection
from pathlib import Path

from wakeful.errors import StoreFull, StoreUnavailable
from wakeful.private_files import FILE, mode_of

# The system's errors for a file that cannot grow: no space, over the quota, over the limit for a file (RLIMIT_FSIZE).
NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


class ProcessLocks:
    """The locks of one store, as this process holds and sees them."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._held: dict[str, int] = {}

    @property
    def _folder(self) -> Path:
        file = self._path.resolve()  # one file, one folder of locks, also if the store is opened through links
        return file.with_name(file.name + "-processes")

    def lock(self, process: str) -> None:
        """Hold the lock of this identity for as long as the process lives. StoreFull or StoreUnavailable if it cannot be made."""
        path = self._folder / process
        while process not in self._held:
            try:
                # As SQLite does for the WAL: users of the store may use the files beside it.
                mode = (mode_of(self._path) if self._path.exists() else FILE) & 0o666
                path.parent.mkdir(mode=mode | mode >> 2 & 0o111, exist_ok=True)
                handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, mode)
            except FileNotFoundError:
                continue  # the last process that left has just removed the folder
            except OSError as error:
                message = f"{self._folder}: {error.strerror or error}"
                raise (StoreFull if error.errno in NO_ROOM else StoreUnavailable)(message) from error
            fcntl.flock(handle, fcntl.LOCK_EX)
            if is_at(path, handle):
                self._held[process] = handle
            else:
                os.close(handle)  # another process removed the file between open and flock

    def unlock(self, process: str) -> None:
        """Remove the lock of a process that has signed off or was buried."""
        handle = self._held.pop(process, None)
        if handle is not None:
            (self._folder / process).unlink(missing_ok=True)
            os.close(handle)
        with contextlib.suppress(OSError):
            self._folder.rmdir()  # goes when the last process has left

    def is_free(self, process: str) -> bool:
        """Whether the lock is there and free: its process is dead. The file stays until the death is written down, because the
        process that looked may die as well, and the next one needs the sign.
        """
        handle = self._take_if_free(process)
        if handle is None:
            return False  # a missing file is no sign of death: it was tidied up, or the process came by another path
        os.close(handle)
        return True

    def tidy(self, living: Collection[str]) -> None:
        """Remove the free locks, except those of processes that count as alive."""
        with contextlib.suppress(OSError):
            for path in self._folder.iterdir():
                if path.name not in living and (handle := self._take_if_free(path.name)) is not None:
                    path.unlink(missing_ok=True)
                    os.close(handle)

    def let_go(self, process: str) -> None:
        """Free the lock and leave the file, as the kernel does when a process dies."""
        os.close(self._held.pop(process))

    def let_all_go(self) -> None:
        """At the end of a process that could not sign off: the files stay, and their free locks tell the other processes."""
        while self._held:
            os.close(self._held.popitem()[1])

    def _take_if_free(self, process: str) -> int | None:
        try:
            handle = os.open(self._folder / process, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            return None
        return handle


def is_at(path: Path, handle: int) -> bool:
    """Whether the open file is still the one at this path."""
    try:
        return os.path.samestat(path.stat(), os.fstat(handle))
    except FileNotFoundError:
        return False
