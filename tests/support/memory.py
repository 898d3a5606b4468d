"""Files of the tests in memory, where there is room: each commit of SQLite waits until the disk has it, which is milliseconds a
time, and nothing here looks at what a machine without power would have kept.

`TMPDIR` says otherwise. A folder from which nothing may be run is of no use: some tests copy programs.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

MEMORY = Path("/dev/shm")
ROOM = 4 * 1024**3


def use_memory() -> None:
    """For this process, and for those that it starts."""
    if "TMPDIR" not in os.environ and has_room(MEMORY):
        os.environ["TMPDIR"] = tempfile.tempdir = str(MEMORY)


def has_room(place: Path) -> bool:
    try:
        found = os.statvfs(place)
    except OSError:
        return False
    return os.access(place, os.W_OK) and not found.f_flag & os.ST_NOEXEC and found.f_bavail * found.f_frsize >= ROOM
