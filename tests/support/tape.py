"""A source that tests make up: the lines of a file. One that begins with a question mark cannot be read, until a file beside it
says that this was mended; another one beside it says what is in the way of reading at all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from wakeful.cel import Match
from wakeful.model import Event
from wakeful.triggers.source import Batch, Context, Reader, SourceTrouble, Unreadable

AT_ONCE = 50
LOOK_EVERY = 0.01


class TapeReader(Reader):
    kind = "tape"

    def __init__(self, path: Path) -> None:
        super().__init__(path.name)
        self._path = path
        self._at = 0

    async def open(self, cursor: str | None) -> None:
        self._refuse_trouble()
        self._at = int(cursor or 0)

    async def read(self, within: float) -> Batch | None:
        self._refuse_trouble()
        try:
            async with asyncio.timeout(within):
                while self._at == len(self._lines()):
                    await asyncio.sleep(LOOK_EVERY)
        except TimeoutError:
            return None
        lines = self._lines()[self._at : self._at + AT_ONCE]
        behind = len(self._lines()) - self._at - len(lines)
        batch = Batch(cursor=str(self._at + len(lines)), behind=behind, lag=0)
        for number, line in enumerate(lines, start=self._at):
            if line.startswith("?"):
                batch.unreadable.append(
                    Unreadable(line.encode(), "it begins with a question mark", {"line": str(number), "Cookie": "c"})
                )
            else:
                batch.events.append(self._event(number, line))
        self._at += len(lines)
        return batch

    async def close(self) -> None:
        pass

    def read_again(self, raw: bytes, headers: Mapping[str, str]) -> list[Event]:
        if not self._path.with_suffix(".mended").exists():
            message = f"tape {self.name}: it still begins with a question mark"
            raise SourceTrouble(message)
        line = raw.decode().lstrip("?")
        return [self._event(int(headers["line"]), part) for part in line.split("&")] if line else []

    def _event(self, number: int, line: str) -> Event:
        identifier = str(number) if "=" not in line else line
        return Event(f"/{self.name}", identifier, "tape.line", {"line": line})

    def _lines(self) -> list[str]:
        return self._path.read_text().splitlines() if self._path.exists() else []

    def _refuse_trouble(self) -> None:
        trouble = self._path.with_suffix(".trouble")
        if trouble.exists():
            raise SourceTrouble(trouble.read_text())


@dataclass(frozen=True)
class Tape:
    """`@app.agent(Tape("tape.txt"))`."""

    path: str
    type: ClassVar[str] = "tape.line"
    where: ClassVar[str | None] = None
    carries_data: ClassVar[bool] = True

    @property
    def source(self) -> str | None:
        return f"/{Path(self.path).name}"

    @property
    def shared(self) -> tuple[object, ...]:
        return ("tape", self.path)

    def describe(self) -> str:
        return f'Tape("{self.path}")'

    def matches(self, event: Event) -> Match:
        return Match(matched=True, reason=self.describe())

    def reader(self, triggers: Sequence[Any], context: Context) -> Reader:
        return TapeReader(Path(self.path))

    async def problems(self) -> list[str]:
        path = Path(self.path)
        if path.with_suffix(".silent").exists():
            await asyncio.Event().wait()
        trouble = path.with_suffix(".trouble")
        return [trouble.read_text()] if trouble.exists() else []


@dataclass(frozen=True)
class Outside:
    """Where the lines come from, for a test to change."""

    path: Path

    def write(self, *lines: str) -> None:
        with self.path.open("a") as file:
            file.writelines(f"{line}\n" for line in lines)

    def mend(self) -> None:
        self.path.with_suffix(".mended").touch()

    def tear(self, words: str) -> None:
        self.path.with_suffix(".trouble").write_text(words)

    @property
    def trigger(self) -> Tape:
        return Tape(str(self.path))
