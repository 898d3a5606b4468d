"""Reads the content of a file in slices, so that a huge one can be put aside to let others have their turn.

Between a look and the reading, anything may have happened to the name. So the file is opened without following links, also not in
the folders of its path; without blocking, in case it is a pipe now; and the opened file must have the same stat as before.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable

from wakeful.triggers.files.sight import Sight, sight_of

PIECE = 1 << 20
_FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC


class Stopped(Exception):
    """The caller no longer waits for the result."""


def open_file(root: str, path: str, *, follow: bool) -> int:
    """A descriptor of the file at that path below the root. Raises OSError if it cannot be opened or a link is on the way."""
    if follow:
        return os.open(os.path.join(root, path), _FILE)
    *folders, name = path.split("/")
    if not folders:
        return os.open(os.path.join(root, name), _FILE | os.O_NOFOLLOW)
    place = os.open(root, _FOLDER)
    try:
        for folder in folders:
            deeper = os.open(folder, _FOLDER | os.O_NOFOLLOW, dir_fd=place)
            os.close(place)
            place = deeper
        return os.open(name, _FILE | os.O_NOFOLLOW, dir_fd=place)
    finally:
        os.close(place)


class Contents:
    """A file being read. It reads at most the size at the beginning: a file that grows as fast would never end."""

    def __init__(self, descriptor: int, sight: Sight) -> None:
        """`sight` is the stat taken before opening."""
        self._descriptor = descriptor
        self._sight = sight
        self._digest = hashlib.sha256()
        self.left = sight.size
        self.same = sight_of(os.fstat(descriptor)) == sight  # whether it is still the file that was seen

    def read(self, most: int, *, within: float = float("inf"), stopped: Callable[[], bool]) -> bool:
        """Read on, up to that many bytes or about that many seconds. True: done; the file was read, or is not the same."""
        until = time.monotonic() + within
        while self.same and most > 0 and time.monotonic() < until:
            if stopped():
                raise Stopped
            piece = os.read(self._descriptor, min(PIECE, most))
            self._digest.update(piece)
            most -= len(piece)
            self.left -= len(piece)
            if not piece or self.left < 0:
                break
        else:
            self.same = self.same and sight_of(os.fstat(self._descriptor)) == self._sight
            return not self.same
        self.same = self.left == 0 and sight_of(os.fstat(self._descriptor)) == self._sight
        return True

    @property
    def digest(self) -> str:
        return f"sha256:{self._digest.hexdigest()}"

    def close(self) -> None:
        os.close(self._descriptor)
