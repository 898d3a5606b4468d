"""The counter outside of the worker: a file to which every step's body adds a line when it begins and when it ends.

What the engine promises is that a *finished* step never runs again, and finished means recorded in the store. So the
counter and the store are compared, after each kill:

    body ended, recorded in the store      must never begin again                         → `repeated`, has to stay empty
    body ended, not recorded               the kill came between the body's end and its commit; it may begin again
    body cut off in the middle             it begins again
    body failed                            a retry
"""

from __future__ import annotations

import asyncio
import functools
import os
import time
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from wakeful.demo.lines import Lines, add_line
from wakeful.demo.pace import pace

P = ParamSpec("P")
T = TypeVar("T")
Item = TypeVar("Item", bound="Identified")

VARIABLE = "WAKEFUL_DEMO_COUNTER"

Key = tuple[str, str]  # the step's name, and what it was about: the id of its first argument


class Identified(Protocol):
    """Something with an id."""

    id: str


def counted(
    seconds: float,
) -> Callable[[Callable[Concatenate[Item, P], T]], Callable[Concatenate[Item, P], Coroutine[Any, Any, T]]]:
    """Make a step of a body: it takes as long as a real one would, and writes down when it begins and how it ends."""

    def decorate(function: Callable[Concatenate[Item, P], T]) -> Callable[Concatenate[Item, P], Coroutine[Any, Any, T]]:
        @functools.wraps(function)
        async def body(item: Item, /, *args: P.args, **kwargs: P.kwargs) -> T:
            write(function.__name__, item.id, "began")
            ending = "stopped"
            try:
                await asyncio.sleep(seconds * pace())
                ending = "failed"
                result = function(item, *args, **kwargs)
                ending = "finished"
            finally:
                write(function.__name__, item.id, ending)
            return result

        return body

    return decorate


def write(step: str, subject: str, what: str) -> None:
    """Add a line, if there is a director to read it."""
    path = os.environ.get(VARIABLE)
    if path is not None:
        add_line(path, {"at": time.time(), "worker": os.getpid(), "step": step, "subject": subject, "what": what})


@dataclass(slots=True)
class Execution:
    """One time that a body ran."""

    worker: int
    began_at: float
    ended: str | None = None  # finished, failed or stopped


class Counter:
    """Reads the file as it grows, and judges."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lines = Lines(path)
        self._recorded: set[Key] = set()
        self.executions: dict[Key, list[Execution]] = {}
        self.finished = 0
        self.retried: list[Key] = []
        self.cut_off = 0
        self.unsaved = 0
        self.repeated: list[Key] = []

    def read(self) -> None:
        """Take in the lines that were added since the last time."""
        for entry in self._lines.added():
            key = (entry["step"], entry["subject"])
            if entry["what"] == "began":
                self._begin(key, Execution(entry["worker"], entry["at"]))
            else:
                self._end(key, entry["worker"], entry["what"])

    def bury(self, worker: int, recorded: Iterable[Key]) -> None:
        """A worker is dead, and this is what the store holds now."""
        self.read()
        self._recorded.update(recorded)
        for key, executions in self.executions.items():
            endings = [one.ended for one in executions if one.worker == worker]
            self.cut_off += endings.count(None)
            self.unsaved += endings.count("finished") if key not in self._recorded else 0

    def finished_keys(self) -> set[Key]:
        """What ran to its end at least once."""
        return {
            key for key, executions in self.executions.items() if any(one.ended == "finished" for one in executions)
        }

    def last(self, key: Key) -> Execution | None:
        """The latest time that this body ran."""
        return self.executions.get(key, [None])[-1]

    def _begin(self, key: Key, execution: Execution) -> None:
        earlier = self.executions.setdefault(key, [])
        finished_by = {one.worker for one in earlier if one.ended == "finished"}
        if execution.worker in finished_by or (finished_by and key in self._recorded):
            self.repeated.append(key)
        elif earlier and earlier[-1].ended == "failed":
            self.retried.append(key)
        earlier.append(execution)

    def _end(self, key: Key, worker: int, ending: str) -> None:
        for execution in reversed(self.executions.get(key, [])):
            if execution.worker == worker and execution.ended is None:
                execution.ended = ending
                self.finished += ending == "finished"
                return
