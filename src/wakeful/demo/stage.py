"""The stage: looks at the store, at the counter and at the bank's book, tells what is new in them, and has it drawn."""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from wakeful.demo.bank import Book
from wakeful.demo.board import Board
from wakeful.demo.child import Bank, Child
from wakeful.demo.counter import Counter
from wakeful.demo.orders import pace_for
from wakeful.demo.scene import Advice, Message, Scene, reason_of, row_of, what_became_of
from wakeful.demo.view import View

PAINT_EVERY = 0.125
HEADLINE_STAYS = 2.0
REMEMBERED = 60
TOLD_EFFECTS = {"held": "bold magenta", "confirmed": "bold green", "abandoned": "bold yellow"}


@dataclass(slots=True)
class Stage:
    """Everything that is seen and said, the processes that are watched, and the time of the story."""

    board: Board
    counter: Counter
    book: Book
    view: View
    store: str
    folder: Path
    seconds: float | None
    keep: bool
    worker: Child | None = None
    bank: Bank | None = None
    advice: Callable[[], Advice | None] = lambda: None
    _begun: float = field(default_factory=time.monotonic)
    _looking: asyncio.Lock = field(default_factory=asyncio.Lock)
    _looked: asyncio.Event = field(default_factory=asyncio.Event)
    _messages: list[Message] = field(default_factory=list)
    _headline: Message = field(default_factory=lambda: Message(0.0, ""))
    _told: set[tuple[str, ...]] = field(default_factory=set)

    @property
    def pace(self) -> float:
        return pace_for(self.seconds)

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self._begun

    @property
    def left(self) -> float:
        return math.inf if self.seconds is None else max(0.0, self.seconds - self.elapsed)

    @property
    def at_work(self) -> int | None:
        """The worker that has joined."""
        return None if self.worker is None or self.worker.joined_at is None else self.worker.pid

    def say(self, text: str, style: str = "", *, minor: bool = False) -> None:
        """Tell what happened. The headline changes for what matters, and for the rest only when it has been read."""
        message = Message(self.elapsed, text, style)
        self._messages = [*self._messages, message][-REMEMBERED:]
        if not minor or message.at - self._headline.at > HEADLINE_STAYS:
            self._headline = message
        self.view.tell(message)

    async def look(self) -> None:
        """Read all there is, whole and one at a time: what was true before this call is in it. What runs do is counted
        before it is stored, so the store comes first.
        """
        async with self._looking:
            await self.board.read()
            self.counter.read()
            self.book.read()
        self._tell_news()
        self._looked.set()
        self._looked.clear()

    async def until(self, condition: Callable[[], bool], *, at_most: float) -> bool:
        """Wait until something is seen, but no longer than so many seconds. `show` looks meanwhile."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(at_most):
                while not condition():
                    await self._looked.wait()
        return condition()

    async def show(self) -> None:
        """Look and paint, again and again. Raises ChildDied."""
        while True:
            for what, child in (("Worker", self.worker), ("The bank", self.bank)):
                if child is not None:
                    child.check(what)
            await self.look()
            self.view.paint(self._scene())
            await asyncio.sleep(PAINT_EVERY)

    def _tell_news(self) -> None:
        for seen in self.board.runs.values():
            if seen.state == "dead" and self._is_news("dead", seen.id):
                self.say(f"Dead letter: {seen.agent}, {seen.subject}: {reason_of(seen)}", "red", minor=True)
        for step, subject in self.counter.retried:
            if self._is_news("retried", step, subject):  # only the first retry of a step
                self.say(f"Step {step} failed for {subject}, which may pass: it is tried again.", "yellow", minor=True)
        for seen, effect in self.board.effects():
            if effect.state in TOLD_EFFECTS and self._is_news(effect.id, effect.state):
                self.say(what_became_of(seen, effect, self.book.page(seen.subject)), TOLD_EFFECTS[effect.state])
        for seen in self.board.runs.values():
            if seen.state == "done" and seen.remedies and self._is_news("repaired", seen.id):
                self.say(
                    f"{seen.subject} is done: repaired and replayed by {seen.remedies[-1].operator}.", "bold green"
                )

    def _is_news(self, *what: str) -> bool:
        """True once."""
        before = len(self._told)
        self._told.add(what)
        return len(self._told) > before

    def _scene(self) -> Scene:
        board, counter, worker = self.board, self.counter, self.worker
        counts = {
            "events accepted": len(board.accepted()),
            "runs done": board.count("done"),
            "runs open": len(board.open_runs()),
            "steps finished": counter.finished,
            "retries": len(counter.retried),
            "dead letters": board.count("dead"),
            "runs resumed": sum(seen.was_resumed for seen in board.runs.values()),
            "steps executed twice": len(counter.repeated),
            "effects done": sum(effect.state == "confirmed" for _, effect in board.effects()),
            "effects done twice": sum(page.booked > 1 for page in self.book.pages.values()),
            "held for a person": len(board.held()),
        }
        state = "none" if worker is None else f"{worker.pid} {'at work' if self.at_work else 'starts'}"
        rows = [row_of(seen, counter, self.at_work, time.time()) for seen in list(board.runs.values())[-REMEMBERED:]]
        times = (self.elapsed, self.seconds)
        return Scene(*times, self.folder, self.keep, self._headline, self._messages, state, counts, rows, self.advice())
