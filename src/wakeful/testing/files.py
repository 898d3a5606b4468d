"""`files(…)` in a world: a test writes a file, and the next drain reports it.

The folder is read only while the world is drained. A file counts as complete at once: `settle=` waits, by the machine's
clock, for other programs to finish writing, but a test has written its file before it drains. A missing folder counts
as empty.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from wakeful.clock import duration
from wakeful.triggers.base import Trigger
from wakeful.triggers.files.trigger import Files
from wakeful.triggers.source import Batch, Context, Reader

# A polling interval instead of inotify starts no watcher. A drain looks at everything anyway.
NOT_WATCHED = duration("1d")


def files_of(agents: Mapping[str, Any]) -> dict[str, list[Trigger]]:
    """The file triggers of each agent that a world reads."""
    return {
        name: [FilesInAWorld.of(one) for one in agent.triggers if isinstance(one, Files)]
        for name, agent in agents.items()
    }


@dataclass(frozen=True, slots=True)
class FilesInAWorld(Files):
    """The same files with the same names, for a reader that does not wait."""

    @classmethod
    def of(cls, trigger: Files, **changes: Any) -> FilesInAWorld:
        given = {one.name: getattr(trigger, one.name) for one in fields(Files) if one.init}
        return cls(**{**given, "settle": 0, "poll": NOT_WATCHED, **changes})

    def reader(self, triggers: Sequence[Any], context: Context) -> Reader:
        late = [self.of(one, existing=True) for one in triggers]
        return FilesOfATest(
            self.pattern.root, Files.reader(self, triggers, context), Files.reader(late[0], late, context)
        )


class FilesOfATest(Reader):
    """Reads a folder, if it exists. Files in a folder that was created after the start are new, regardless of
    `existing=`.
    """

    kind = "files"

    def __init__(self, root: str, from_the_start: Reader, made_later: Reader) -> None:
        super().__init__(from_the_start.name)
        self._root = root
        self._reader = from_the_start
        self._made_later = made_later
        self._cursor: str | None = None
        self._open = False

    async def open(self, cursor: str | None) -> None:
        self._cursor = cursor
        if await asyncio.to_thread(Path(self._root).is_dir):
            await self._reader.open(cursor)
            self._open = True
        else:
            self._reader = self._made_later

    async def read(self, within: float) -> Batch | None:
        if not self._open:
            await self.open(self._cursor)
        return await self._reader.read(within) if self._open else None

    async def close(self) -> None:
        self._open = False
        await self._reader.close()

    @property
    def busy(self) -> bool:
        return self._open and self._reader.busy

    def read_again(self, raw: bytes, headers: Mapping[str, str]) -> list[Any]:
        return self._reader.read_again(raw, headers)
