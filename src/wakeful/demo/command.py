"""A command of Wakeful: as a person would type it, and as it is started here, in a process of its own."""

from __future__ import annotations

import asyncio
import contextlib
import shlex
import shutil
import sys
from asyncio.subprocess import DEVNULL, PIPE, STDOUT
from dataclasses import dataclass
from pathlib import Path


class CommandFailed(Exception):
    """A command that the demonstration typed did not do what it should."""


def program() -> str:
    """How a person at a terminal calls Wakeful."""
    if shutil.which("wakeful") is not None:
        return "wakeful"
    beside = Path(sys.executable).with_name("wakeful")
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

        A value that is longer than a line is broken too, unless it has quotes, where the backslash would be part of it.
        The rest of a broken value stands at the very left, because a space would end the word.
        """
        lines, line = [], program()
        words = iter(self.words)
        for word in words:
            part = shlex.join([word, next(words)] if word.startswith("--") else [word])
            if len(line) + len(part) + 3 <= width:
                line += f" {part}"
                continue
            lines.append(f"{line} \\")
            line = f"  {part}"
            while "'" not in part and len(line) + 2 > width:
                lines.append(line[: width - 1] + "\\")
                line = line[width - 1 :]
        return [*lines, line]

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
