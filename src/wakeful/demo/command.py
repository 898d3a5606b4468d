"""A command of Wakeful: as somebody would type it, and as it is started here, in a process of its own."""

from __future__ import annotations

import asyncio
import contextlib
import shlex
import shutil
import sys
from asyncio.subprocess import DEVNULL, PIPE, STDOUT
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PROGRAM = "wakeful"


class CommandFailed(Exception):
    """A command that the demonstration typed did not do what it should."""


def program() -> str:
    """How somebody at a terminal calls Wakeful."""
    if shutil.which(PROGRAM) is not None:
        return PROGRAM
    beside = Path(sys.executable).with_name(PROGRAM)
    return str(beside.relative_to(Path.cwd()) if beside.is_relative_to(Path.cwd()) else beside)


@dataclass(frozen=True, slots=True)
class Command:
    """The words after `wakeful`."""

    words: tuple[str, ...]

    def shown(self) -> str:
        """In one line, ready for a shell."""
        return shlex.join([program(), *self.words])

    def folded(self, width: int) -> list[str]:
        """In lines of a terminal, which a shell takes as one: each but the last ends with a backslash.

        What is longer than a line is broken too, where it can be: what follows of it stands at the very left, because a
        space would end the word, and between quotes the backslash would be part of it.
        """
        lines: list[str] = []
        line = program()
        for part in self._parts():
            if len(line) + len(part) + 3 <= width:
                line += f" {part}"
                continue
            lines.append(f"{line} \\")
            line = f"  {part}"
            while "'" not in part and len(line) + 2 > width:
                lines.append(line[: width - 1] + "\\")
                line = line[width - 1 :]
        return [*lines, line]

    def _parts(self) -> Iterator[str]:
        """What should stay in one line: a word, or an option and its value."""
        words = iter(self.words)
        for word in words:
            yield shlex.join([word, next(words)] if word.startswith("--") else [word])

    async def execute(self) -> tuple[int, str]:
        """Its exit code, and what it said."""
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "wakeful.cli", *self.words,
            stdin=DEVNULL, stdout=PIPE, stderr=STDOUT, start_new_session=True,
        )  # fmt: skip
        try:
            said, _ = await process.communicate()
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()  # when the demonstration is ended meanwhile
        return process.returncode or 0, said.decode(errors="replace").strip()
