"""The second terminal: what a person would type about a run that waits for one, and about a dead letter.

What waits is shown with its command for as long as it waits, and whoever types it is recorded. If nobody does, the
demonstration types it itself: the same command, in a process of its own, under the name of `demo`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from wakeful.demo.board import Seen, SeenEffect
from wakeful.demo.command import Command, CommandFailed
from wakeful.demo.scene import Advice
from wakeful.demo.stage import Stage

ITSELF = "demo"
TYPING = 1.2  # long enough to be read
SEEN_WITHIN = 10.0
SHORT = 8  # so much of an id is enough, here


class Desk:
    """Where people's work is done."""

    def __init__(self, stage: Stage, corrections: Mapping[str, dict[str, Any]], store: str, pace: float) -> None:
        self._stage = stage
        self._pace = pace
        self._corrections = corrections
        self._store = store
        self._typing: Advice | None = None

    def advice(self) -> Advice | None:
        """What to type now, if anything waits for a person."""
        if self._typing is not None:
            return self._typing
        for seen, effect in self._stage.board.held():
            text = f"{seen.subject} waits for a person. In a second terminal, or just wait:"
            return Advice(text, self._answer(seen, effect))
        return None

    async def clear(self) -> None:
        """Do what nobody has done: repair what is dead and can be repaired, which takes longest; settle what is held."""
        for seen in list(self._stage.board.runs.values()):
            if seen.state == "dead" and seen.subject in self._corrections:
                await self._repair(seen)
        while held := self._stage.board.held():
            await self._settle(*held[0])

    async def _settle(self, seen: Seen, effect: SeenEffect) -> None:
        def is_settled() -> bool:
            now = seen.effect(effect.id)
            return now is not None and now.state != "held"

        self._stage.say(f"Nobody has said a word about {seen.subject}: the demonstration does it itself.")
        await self._type(self._answer(seen, effect), is_settled)

    async def _repair(self, seen: Seen) -> None:
        before = len(seen.remedies)
        data = json.dumps(self._corrections[seen.subject], separators=(",", ":"))
        note = "the amount was mistyped"
        self._stage.say(f"Dead letter {seen.subject}: its data is repaired, and the run is replayed.")
        await self._type(
            Command(("replay", seen.id[:SHORT], "--data", data, "--note", note, "--store", self._store)),
            lambda: len(seen.remedies) > before,
        )

    def _answer(self, seen: Seen, effect: SeenEffect) -> Command:
        """What somebody with the bank's statement in hand would say."""
        is_there = self._stage.book.page(seen.subject).booked > 0
        verb, note = ("confirm", "it is on the statement") if is_there else ("repeat", "it is not on the statement")
        return Command(("effects", verb, effect.id[:SHORT], "--note", note, "--store", self._store))

    async def _type(self, command: Command, is_done: Callable[[], bool]) -> None:
        """As a person would: slowly, and in another process. Should somebody have been faster, that is no failure."""
        command = Command((*command.words, "--as", ITSELF))
        self._typing = Advice("The demonstration types, in another process:", command)
        try:
            if await self._stage.until(is_done, at_most=TYPING * self._pace):
                return
            code, said = await command.execute()
        finally:
            self._typing = None
        if not await self._stage.until(is_done, at_most=SEEN_WITHIN):
            message = f"This command ended with exit code {code}, and changed nothing:\n{command.shown()}\n{said}"
            raise CommandFailed(message)
