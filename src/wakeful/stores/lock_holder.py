"""Which process holds the write lock of a SQLite file.

A process that is stopped inside a write (SIGSTOP, a debugger, a frozen container) blocks all other writers, and only that process can
end it. So a writer that times out names the holder. Linux lists locks in /proc/locks; on other systems, and for a process in another
container, the holder stays unnamed.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

WRITE_LOCK = 120  # the byte of the -shm file that a writer locks
STOPPED = {"T", "t"}  # by a signal, or by a debugger


@dataclass(frozen=True, slots=True)
class WriteLockHolder:
    """A process that holds the write lock."""

    pid: int
    name: str
    stopped: bool

    def __str__(self) -> str:
        if self.pid == os.getpid():
            return f"this process (pid {self.pid})"
        return f"process {self.pid} ({self.name}{', which is stopped' if self.stopped else ''})"

    @property
    def remedy(self) -> str:
        if self.stopped:
            return f"let it continue (kill -CONT {self.pid}) or end it (kill -KILL {self.pid})"
        return f"wait for it, or end it (kill {self.pid})"


def holder_of(database: Path) -> WriteLockHolder | None:
    """The process that holds the write lock now; None if there is none or it cannot be found out."""
    try:
        file = Path(f"{database.resolve()}-shm").stat()
        locks = Path("/proc/locks").read_text(encoding="utf-8")
    except OSError:
        return None
    found = [pid for inode, pid in map(_write_lock, locks.splitlines()) if inode == file.st_ino and pid > 0]
    return _read(found[0]) if found else None


def locked_by(database: Path) -> str:
    """A message that names the lock's holder and says what to do. It leaves out the path, because strangers may see it."""
    holder = holder_of(database)
    if holder is None:
        return "another process holds the write lock of the store and does not release it"
    return f"{holder} holds the write lock of the store: {holder.remedy}"


def _write_lock(line: str) -> tuple[int, int]:
    """The inode and pid of a line of /proc/locks, if it is a writer's lock; else zeros. A line is

        3: POSIX  ADVISORY  WRITE 4711 08:01:9437 120 120

    The device is ignored: some file systems have another number for it there.
    """
    words = line.split()
    if len(words) != 8 or words[1:4] != ["POSIX", "ADVISORY", "WRITE"]:
        return 0, 0
    first, last = words[6], words[7]
    if not first.isdigit() or int(first) > WRITE_LOCK or (last != "EOF" and int(last) < WRITE_LOCK):
        return 0, 0
    return int(words[5].rpartition(":")[2]), int(words[4])


def _read(pid: int) -> WriteLockHolder | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    head, _, rest = text.rpartition(")")
    return WriteLockHolder(pid, head.partition("(")[2], rest.split()[0] in STOPPED)
