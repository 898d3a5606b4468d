"""The counter outside of the worker: a file to which every step's body adds a line when it begins and when it ends.

The engine promises that a *finished* step never runs again, and finished means recorded in the store. So the counter and
the store are compared, after each kill:

    body ended, recorded in the store      must never begin again                         → `repeated`, has to stay empty
    body ended, not recorded               the kill came between the body's end and its commit; it may begin again
    body cut off in the middle             it begins again
    body failed                            a retry
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from wakeful.demo.lines import Lines, add_line
from wakeful.demo.orders import pace

VARIABLE = "WAKEFUL_DEMO_COUNTER"

Key = tuple[str, str]  # the step's name, and the id of what it is about


@asynccontextmanager
async def counted(step: str, subject: str, seconds: float) -> AsyncIterator[None]:
    """The body of a step, which takes so long: a line when it begins, and one that says how it ends."""
    write(step, subject, "began")
    ending = "stopped"
    try:
        await asyncio.sleep(seconds * pace())
        ending = "failed"
        yield
        ending = "finished"
    finally:
        write(step, subject, ending)


def write(step: str, subject: str, what: str) -> None:
    """Add a line, if there is a director to read it."""
    if (path := os.environ.get(VARIABLE)) is not None:
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
        for line in self._lines.added():
            key, worker = (line["step"], line["subject"]), line["worker"]
            executions = self.executions.setdefault(key, [])
            if line["what"] == "began":
                self._judge(key, worker, executions)
                executions.append(Execution(worker, line["at"]))
            else:
                running = next(one for one in reversed(executions) if one.worker == worker)
                running.ended = line["what"]
                self.finished += running.ended == "finished"

    def _judge(self, key: Key, worker: int, earlier: list[Execution]) -> None:
        finished_by = {one.worker for one in earlier if one.ended == "finished"}
        if worker in finished_by or (finished_by and key in self._recorded):
            self.repeated.append(key)
        elif earlier and earlier[-1].ended == "failed":
            self.retried.append(key)

    def bury(self, worker: int, recorded: Iterable[Key]) -> None:
        """A worker is dead, and the store holds these steps."""
        self.read()
        self._recorded.update(recorded)
        for key, executions in self.executions.items():
            endings = [one.ended for one in executions if one.worker == worker]
            self.cut_off += endings.count(None)
            self.unsaved += endings.count("finished") if key not in self._recorded else 0

    def finished_keys(self) -> set[Key]:
        """The steps that ran to their end at least once."""
        return {key for key, all_of_it in self.executions.items() if any(one.ended == "finished" for one in all_of_it)}
