"""What is known about each file, and the events that follow from its present state. Nothing here reads a disk.

    unknown, or gone ──► exists                               created
    exists ──► exists, other content                          changed
    exists ──► exists, same content, was away in between      deleted, created
    exists ──► exists, same content                           nothing
    exists ──► gone                                           deleted
    exists, never read (not news) ──► exists, read            nothing if its stat is the same; else changed

Each event raises the version of its path by one; it never falls. So `path@version` identifies one event forever.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal, get_args

from wakeful.stores.verbs.take_in import Item
from wakeful.triggers.files.sight import Sight

FileOperation = Literal["created", "changed", "deleted"]
OPERATIONS: tuple[FileOperation, ...] = get_args(FileOperation)
DOUBTFUL = "?"
UNREAD = "unread"  # stands in place of a digest


@dataclass(frozen=True, slots=True)
class Known:
    """A path as last reported. Not `sure`: it was read so soon after its last change that another change could look the same."""

    version: int
    sight: Sight
    digest: str
    gone: bool = False
    sure: bool = True

    def item(self, path: str) -> Item:
        mark = " ".join([*map(str, self.sight), self.digest, *([] if self.sure else [DOUBTFUL])])
        return Item(path, self.version, mark, self.gone)


@dataclass(frozen=True, slots=True)
class FileChange:
    """One change of a file. A deleted file is described as it was last seen."""

    path: str
    operation: FileOperation
    version: int
    sight: Sight
    digest: str


def known_of(item: Item) -> Known:
    size, modified, touched, inode, digest, *doubts = item.mark.split(" ")
    sight = Sight(int(size), int(modified), int(touched), int(inode))
    return Known(item.version, sight, digest, item.gone, not doubts)


@dataclass(slots=True)
class FileLedger:
    """All paths of a source."""

    paths: dict[str, Known] = field(default_factory=dict)
    folders: Counter[str] = field(default_factory=Counter)  # number of existing files in each folder

    @classmethod
    def of(cls, items: Iterable[Item]) -> FileLedger:
        ledger = cls()
        for item in items:
            ledger.write(item.item, known_of(item))
        return ledger

    def is_there(self, path: str) -> bool:
        known = self.paths.get(path)
        return known is not None and not known.gone

    def there(self) -> Iterator[str]:
        return (path for path, known in self.paths.items() if not known.gone)

    def is_old_news(self, path: str, sight: Sight | None) -> bool:
        """Whether, judging by its stat, nothing can have happened."""
        known = self.paths.get(path)
        if sight is None:
            return known is None or known.gone
        return known is not None and not known.gone and known.sure and known.sight == sight

    def gone(self, path: str) -> list[FileChange]:
        known = self.paths.get(path)
        return [] if known is None or known.gone else [self._tell(path, "deleted", known.sight, known.digest)]

    def seen(self, path: str, sight: Sight, digest: str, *, sure: bool = True, away: bool = False) -> list[FileChange]:
        """The file exists and is complete. `away`: it is certain that it was missing for a moment."""
        known = self.paths.get(path)
        if known is None or known.gone:
            return [self._tell(path, "created", sight, digest, sure=sure)]
        if known.digest != digest and not (known.digest == UNREAD and known.sight == sight):
            return [self._tell(path, "changed", sight, digest, sure=sure)]
        if away:
            return [*self.gone(path), self._tell(path, "created", sight, digest, sure=sure)]
        self.write(path, Known(known.version, sight, digest, sure=sure))
        return []

    def write(self, path: str, known: Known) -> None:
        before, self.paths[path] = self.is_there(path), known
        if before == known.gone:  # it appeared or disappeared
            place = path
            while place:
                place = place.rpartition("/")[0]
                self.folders[place] += -1 if before else 1
                if not self.folders[place]:
                    del self.folders[place]

    def _tell(self, path: str, operation: FileOperation, sight: Sight, digest: str, *, sure: bool = True) -> FileChange:
        known = self.paths.get(path)
        version = 1 if known is None else known.version + 1
        self.write(path, Known(version, sight, digest, operation == "deleted", sure))
        return FileChange(path, operation, version, sight, digest)
