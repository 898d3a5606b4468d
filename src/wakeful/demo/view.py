"""How it is shown: a live picture in a terminal, or lines of progress where there is none."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Protocol, Self

from rich.console import Console

from wakeful.demo.live import LiveView
from wakeful.demo.scene import Advice, Message, Scene

NARROWEST = 72
LOWEST = 18


class View(Protocol):
    """Where the director shows things."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *_: object) -> None: ...
    def tell(self, message: Message) -> None: ...
    def paint(self, scene: Scene) -> None: ...


def choose_view(console: Console, environment: Mapping[str, str] = os.environ) -> View:
    """The live picture where it can be drawn."""
    drawable = console.is_terminal and not console.is_dumb_terminal and not environment.get("NO_COLOR")
    if drawable and console.width >= NARROWEST and console.height >= LOWEST:
        return LiveView(console)
    return PlainView(console)


class PlainView:
    """Lines of progress: what happened, and every few seconds how far it is."""

    every = 2.0

    def __init__(self, console: Console) -> None:
        self._console = console
        self._next = self.every
        self._advised: set[Advice] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def tell(self, message: Message) -> None:
        self._print(message.at, message.text)

    def paint(self, scene: Scene) -> None:
        if scene.advice is not None and scene.advice not in self._advised:
            self._advised.add(scene.advice)
            self._print(scene.elapsed, scene.advice.text)
            self._console.print(f"          $ {scene.advice.command.shown()}", markup=False, soft_wrap=True)
        if scene.elapsed < self._next:
            return
        self._next = scene.elapsed + self.every
        counts = scene.counts
        self._print(
            scene.elapsed,
            f"- accepted {counts['events accepted']}, done {counts['runs done']}, open {counts['runs open']}, "
            f"dead {counts['dead letters']}; steps {counts['steps finished']}, twice {counts['steps executed twice']}",
        )

    def _print(self, at: float, text: str) -> None:
        self._console.print(f"{at:6.1f} s  {text}", markup=False, soft_wrap=True)
