"""The second terminal: the commands that an operator would type for a held run and for a dead letter.

The command is shown while the run waits, and the operator who types it is recorded. If no operator does, the demonstration runs
the same command itself, in a separate process, as `demo`.
"""

from __future__ import annotations

import json
import shlex
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from wakeful.demo.processes import Child, Failed
from wakeful.demo.stage import Stage, subject_of

TYPING = 1.2  # long enough to read
SEEN_WITHIN = 10.0
SHORT = 8  # this prefix of an id is enough here


class Advice(NamedTuple):
    """A command for another terminal: its explanation, and the arguments after `wakeful`."""

    text: str
    words: tuple[str, ...]


@dataclass(slots=True)
class Desk:
    """Does the operator's work."""

    stage: Stage
    typing: Advice | None = None

    def advice(self) -> Advice | None:
        """The command to type now, if something waits for a person."""
        if self.typing is None and (held := self.stage.held()):
            subject, command = self._answer(*held[0])
            text = f"{subject} waits for a person. In a second terminal, or just wait:"
            return Advice(text, (*command, "--store", self.stage.store))
        return self.typing

    async def clear(self) -> None:
        """Repair dead letters that can be repaired, which takes longest; then settle held effects."""
        stage = self.stage
        for run in stage.in_state("dead"):
            if run["agent"] == "invoice":  # other data would not help the others
                stage.say(f"Dead letter {subject_of(run)}: its data is repaired, and the run is replayed.")
                data = json.dumps({**run["event"]["data"], "amount": "27.50"}, separators=(",", ":"))
                repair = ("replay", run["id"][:SHORT], "--data", data, "--note", "the amount was mistyped")
                await self._type(repair, lambda: bool(stage.runs[run["id"]]["remedies"]))  # noqa: B023 awaited here
        while held := stage.held():
            subject, command = self._answer(*held[0])
            stage.say(f"No operator has settled {subject}: the demonstration does it itself.")
            await self._type(command, lambda: held[0][1]["id"] not in {effect["id"] for _, effect in stage.held()})

    def _answer(self, run: dict[str, Any], effect: dict[str, Any]) -> tuple[str, tuple[str, ...]]:
        """A refund, and how a person with the bank statement would settle it."""
        is_booked = self.stage.book.count("booked", subject_of(run)) > 0
        verb, note = ("confirm", "it is on the statement") if is_booked else ("repeat", "it is not on the statement")
        return subject_of(run), ("effects", verb, effect["id"][:SHORT], "--note", note)

    async def _type(self, command: tuple[str, ...], is_done: Callable[[], bool]) -> None:
        """Run a command as a person would: slowly, in another process. If a person was faster, that is not an error."""
        words, log = (*command, "--store", self.stage.store, "--as", "demo"), self.stage.folder / "commands.log"
        self.typing = Advice("The demonstration types, in another process:", words)
        try:
            if await self.stage.until(is_done, at_most=TYPING * self.stage.pace):
                return
            typed = await Child.start("The command", "wakeful.cli", *words, log=log)
            try:
                code = await typed.process.wait()
            finally:
                await typed.end()  # when the demonstration is ended meanwhile
        finally:
            self.typing = None
        if not await self.stage.until(is_done, at_most=SEEN_WITHIN):
            ending = f"This command exited with code {code} and changed nothing:\n{in_one_line(words)}\n"
            raise Failed(ending + log.read_text(encoding="utf-8", errors="replace"))


# a command as a person would type it


def program() -> str:
    """How Wakeful is called in a terminal."""
    if shutil.which("wakeful") is not None:
        return "wakeful"
    beside = Path(sys.executable).with_name("wakeful")
    return str(beside.relative_to(Path.cwd()) if beside.is_relative_to(Path.cwd()) else beside)


def in_one_line(words: tuple[str, ...]) -> str:
    return shlex.join([program(), *words])


def folded(words: tuple[str, ...], width: int) -> list[str]:
    """A command wrapped to the terminal's width; each line but the last ends with a backslash.

    A value that is longer than a line is broken too, unless it is quoted, where the backslash would be part of it. The rest
    of a broken value starts at the left margin, because a space would end the argument.
    """
    lines, line = [], program()
    rest = iter(words)
    for word in rest:
        part = shlex.join([word, next(rest)] if word.startswith("--") else [word])
        if len(line) + len(part) + 3 <= width:
            line += f" {part}"
            continue
        lines.append(f"{line} \\")
        line = f"  {part}"
        while "'" not in part and len(line) + 2 > width:
            lines.append(line[: width - 1] + "\\")
            line = line[width - 1 :]
    return [*lines, line]
