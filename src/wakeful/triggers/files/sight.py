"""What can be seen of a file: first from outside, which is cheap, then by reading it."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable
from typing import NamedTuple

PIECE = 1 << 20


class Sight(NamedTuple):
    """A file from outside. If all of this is as it was, so is what the file holds; if not, only reading it can tell."""

    size: int
    modified: int  # nanoseconds, as is `touched`
    touched: int  # its inode: content, rights, name
    inode: int


class Stopped(Exception):
    """Nobody waits for the answer any more."""


def look(path: str) -> Sight | None:
    """None: there is no such file. A symbolic link is what it points at; what is no regular file is none. OSError: cannot tell."""
    try:
        return sight_of(os.stat(path))
    except (FileNotFoundError, NotADirectoryError):
        return None


def sight_of(found: os.stat_result) -> Sight | None:
    if not stat.S_ISREG(found.st_mode):
        return None
    return Sight(found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)


def digest_of(path: str, *, stopped: Callable[[], bool]) -> tuple[Sight | None, str]:
    """The digest of what it holds, and how it looked then; None: it changed while it was read."""
    # Without waiting: what was a file a moment ago may be a pipe now.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb", buffering=0) as file:
        before = sight_of(os.fstat(descriptor))
        if before is None:
            return None, ""
        digest = hashlib.sha256()
        while piece := file.read(PIECE):
            if stopped():
                raise Stopped
            digest.update(piece)
        after = sight_of(os.fstat(descriptor))
    return (after if after == before else None), f"sha256:{digest.hexdigest()}"
