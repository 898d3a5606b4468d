"""The second terminal: what a person would type about a run that waits for one, and about a dead letter.

The command is shown for as long as the run waits, and the person who types it is recorded. If no person does, the
demonstration types it itself: the same command, in a process of its own, under the name of `demo`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from wakeful.demo.board import Seen, SeenEffect
from wakeful.demo.command import Command, CommandFailed
from wakeful.demo.scene import Advice
from wakeful.demo.stage import Stage

TYPING = 1.2  # long enough to be read
SEEN_WITHIN = 10.0
SHORT = 8  # so much of an id is enough, here


@dataclass(slots=True)
class Desk:
    """Where people's work is done."""

    stage: Stage
    corrections: Mapping[str, dict[str, Any]]
    typing: Advice | None = None

    def advice(self) -> Advice | None:
        """What to type now, if anything waits for a person."""
        held = self.stage.board.held()
        if self.typing is not None or not held:
            return self.typing
        seen, effect = held[0]
        text = f"{seen.subject} waits for a person. In a second terminal, or just wait:"
        return Advice(text, self._answer(seen, effect))

    async def clear(self) -> None:
        """Repair what is dead and can be repaired, which takes longest; settle what is held."""
        for seen in list(self.stage.board.runs.values()):
            if seen.state == "dead" and seen.subject in self.corrections:
                await self._repair(seen)
        while held := self.stage.board.held():
            await self._settle(*held[0])

    async def _settle(self, seen: Seen, effect: SeenEffect) -> None:
        self.stage.say(f"Nobody has said a word about {seen.subject}: the demonstration does it itself.")
        await self._type(
            self._answer(seen, effect), lambda: effect.id not in {one.id for _, one in self.stage.board.held()}
        )

    async def _repair(self, seen: Seen) -> None:
        before = len(seen.remedies)
        data = json.dumps(self.corrections[seen.subject], separators=(",", ":"))
        self.stage.say(f"Dead letter {seen.subject}: its data is repaired, and the run is replayed.")
        command = self._command("replay", seen.id[:SHORT], "--data", data, note="the amount was mistyped")
        await self._type(command, lambda: len(seen.remedies) > before)

    def _answer(self, seen: Seen, effect: SeenEffect) -> Command:
        """What a person with the bank's statement in hand would say."""
        if self.stage.book.page(seen.subject).booked:
            return self._command("effects", "confirm", effect.id[:SHORT], note="it is on the statement")
        return self._command("effects", "repeat", effect.id[:SHORT], note="it is not on the statement")

    def _command(self, *words: str, note: str) -> Command:
        return Command((*words, "--note", note, "--store", self.stage.store))

    async def _type(self, command: Command, is_done: Callable[[], bool]) -> None:
        """As a person would: slowly, and in another process. A person who was faster is no failure."""
        command = Command((*command.words, "--as", "demo"))
        self.typing = Advice("The demonstration types, in another process:", command)
        try:
            if await self.stage.until(is_done, at_most=TYPING * self.stage.pace):
                return
            code, said = await command.execute()
        finally:
            self.typing = None
        if not await self.stage.until(is_done, at_most=SEEN_WITHIN):
            message = f"This command ended with exit code {code}, and changed nothing:\n{command.shown()}\n{said}"
            raise CommandFailed(message)
