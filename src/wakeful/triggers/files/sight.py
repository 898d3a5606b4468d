"""What can be seen of a file from outside, which is cheap. What it holds, contents.py reads."""

from __future__ import annotations

import errno
import os
import stat
from typing import NamedTuple


class Sight(NamedTuple):
    """A file from outside. If all of this is as it was, so is what the file holds; if not, only reading it can tell."""

    size: int
    modified: int  # nanoseconds, as is `touched`
    touched: int  # its inode: content, rights, name
    inode: int


def look(path: str, *, follow: bool) -> Sight | None:
    """None: there is no such file, or it is no regular one. OSError: cannot tell. A link is what it points at if links are followed;
    if not, it says nothing about a file, and that is an OSError too (ELOOP, as the operating system calls it).
    """
    try:
        found = os.stat(path, follow_symlinks=follow)
    except (FileNotFoundError, NotADirectoryError):
        return None
    if stat.S_ISLNK(found.st_mode):
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
    return sight_of(found)


def sight_of(found: os.stat_result) -> Sight | None:
    if not stat.S_ISREG(found.st_mode):
        return None
    return Sight(found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)
