"""Files that only this user may read: made with mode 0600, in folders with mode 0700, whatever the umask.

The mode is given when the file is made and not set afterwards, so there is no moment in which others could open it. A file or
folder that is there already keeps its mode: its owner may share it on purpose, and `wakeful doctor` says what others may do.
"""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

FILE = 0o600
FOLDER = 0o700
OF_OTHERS = 0o077
WRITABLE = 0o022

_CREATING = threading.Lock()


def make_folder(path: Path, mode: int = FOLDER) -> None:
    """Make a folder and those above it that are missing. `Path.mkdir` would give the mode to the last one only."""
    missing = []
    for one in (path, *path.parents):
        if one.is_dir():
            break
        missing.append(one)
    for one in reversed(missing):
        one.mkdir(mode=mode, exist_ok=True)


def reserve(path: Path) -> None:
    """Make an empty file for a database to be opened in, unless there is one.

    Closing a file lets go of all POSIX locks that this process has on it. So nothing is opened that another thread may have
    locked already: the file is opened only by the thread that makes it, and the others wait until it is closed.
    """
    with _CREATING:
        if path.exists():
            return
        place = os.path.realpath(path)  # a link to a file that is not there yet
        try:
            os.close(os.open(place, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE))
        except FileExistsError:
            return  # another process was quicker


def write_file(path: Path, content: bytes) -> None:
    """Write a whole file. One that was there keeps its mode."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, FILE)
    with os.fdopen(handle, "wb") as file:
        file.write(content)


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)
