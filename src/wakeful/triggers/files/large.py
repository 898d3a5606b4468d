"""Large files that are being read, one slice at a time, in an order in which none waits for all others.

Turns alternate between the file that came first and the file with the least left to read. So a file of some megabytes does not wait
for one of many gigabytes, which still gets half of all turns.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from wakeful.triggers.files.contents import Contents
from wakeful.triggers.files.sight import Sight

MOST_OPEN = 8  # open files of one source at a time

C = TypeVar("C")


@dataclass(slots=True)
class Large(Generic[C]):
    """One large file; it is opened at its first turn."""

    candidate: C
    sight: Sight
    contents: Contents | None = None

    @property
    def left(self) -> int:
        return self.sight.size if self.contents is None else self.contents.left


class LargeFiles(Generic[C]):
    """The large files of one source."""

    def __init__(self) -> None:
        self._files: dict[str, Large[C]] = {}  # in order of arrival
        self._least = False

    def __len__(self) -> int:
        return len(self._files)

    def candidates(self) -> Iterator[C]:
        return (large.candidate for large in self._files.values())

    def get(self, path: str) -> Large[C] | None:
        return self._files.get(path)

    def add(self, path: str, large: Large[C]) -> None:
        self._files[path] = large

    def next(self) -> tuple[str, Large[C]] | None:
        """The file whose turn it is."""
        if not self._files:
            return None
        self._least = not self._least
        if not self._least:
            return next(iter(self._files.items()))
        opened = {path: large for path, large in self._files.items() if large.contents is not None}
        some = opened if len(opened) >= MOST_OPEN else self._files
        return min(some.items(), key=lambda one: one[1].left)

    def drop(self, path: str) -> C:
        """Remove a file that has been read or is no longer of interest."""
        large = self._files.pop(path)
        if large.contents is not None:
            large.contents.close()
        return large.candidate

    def close(self) -> None:
        for path in list(self._files):
            self.drop(path)
