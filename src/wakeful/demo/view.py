"""How it is shown: a live picture in a terminal, or lines of progress where there is none."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext

from rich.console import Console

from wakeful.demo.live import LiveView
from wakeful.demo.scene import Advice, Message, Scene

NARROWEST = 72
LOWEST = 18
PROGRESS_EVERY = 2.0
PROGRESS = (
    "- accepted {events accepted}, done {runs done}, open {runs open}, dead {dead letters}; "
    "steps {steps finished}, twice {steps executed twice}"
)


class PlainView:
    """Lines of progress: what happened, and every few seconds how far it is."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._next = PROGRESS_EVERY
        self._advised: set[Advice] = set()

    def screen(self) -> AbstractContextManager[object]:
        return nullcontext()

    def tell(self, message: Message) -> None:
        self._print(f"{message.at:6.1f} s  {message.text}")

    def paint(self, scene: Scene) -> None:
        if scene.advice is not None and scene.advice not in self._advised:
            self._advised.add(scene.advice)
            self.tell(Message(scene.elapsed, scene.advice.text))
            self._print(f"          $ {scene.advice.command.shown()}")
        if scene.elapsed >= self._next:
            self._next = scene.elapsed + PROGRESS_EVERY
            self.tell(Message(scene.elapsed, PROGRESS.format_map(scene.counts)))

    def _print(self, line: str) -> None:
        self._console.print(line, markup=False, soft_wrap=True)


View = LiveView | PlainView


def choose_view(console: Console) -> View:
    """The live picture where it can be drawn."""
    drawable = console.is_terminal and not console.is_dumb_terminal and not os.environ.get("NO_COLOR")
    if drawable and console.width >= NARROWEST and console.height >= LOWEST:
        return LiveView(console)
    return PlainView(console)
