"""Files that only this user may read: created with mode 0600, in folders with mode 0700, regardless of the umask.

The mode is set on creation and not afterwards, so that no other user can open the file in between. An existing file or
folder keeps its mode: its owner may share it on purpose, and `wakeful doctor` reports what others may do.
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
    """Create a folder and its missing parents, all with this mode. `Path.mkdir` would apply the mode only to the last
    one.
    """
    missing = []
    for one in (path, *path.parents):
        if one.is_dir():
            break
        missing.append(one)
    for one in reversed(missing):
        one.mkdir(mode=mode, exist_ok=True)


def reserve(path: Path) -> None:
    """Create an empty file for a database to be opened in, unless one exists.

    Closing a file releases all POSIX locks that this process holds on it. So no file is opened that another thread may
    already have locked: only the thread that creates the file opens it, and the others wait until it is closed.
    """
    with _CREATING:
        if path.exists():
            return
        place = os.path.realpath(path)  # the path may be a link to a file that does not exist yet
        try:
            os.close(os.open(place, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE))
        except FileExistsError:
            return  # another process was faster


def write_file(path: Path, content: bytes) -> None:
    """Write a whole file. An existing file keeps its mode."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, FILE)
    with os.fdopen(handle, "wb") as file:
        file.write(content)


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)
