"""What a `stat` tells about a file, which is cheap. contents.py reads the content."""

from __future__ import annotations

import errno
import os
import stat
from typing import NamedTuple


class Sight(NamedTuple):
    """A file's `stat`. If all of it is unchanged, so is the content; if not, only reading the content can tell."""

    size: int
    modified: int  # nanoseconds, as is `touched`
    touched: int  # its inode: content, rights, name
    inode: int


def look(path: str, *, follow: bool) -> Sight | None:
    """The file's `stat`; None: there is no such file, or it is not a regular one. Raises OSError if that is unknown. A link stands for
    its target if links are followed; if not, it says nothing about a file, and OSError (ELOOP) is raised.
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
