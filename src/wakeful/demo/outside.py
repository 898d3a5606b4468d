"""What happened outside the store, in two files that outlive every process.

    steps.log   the body of each step adds a line when it begins and when it ends: `Counter` reads it
    bank.log    the bank adds a line for each request and each booking: `Book` reads it

The engine promises that a *finished* step never runs again, and finished means recorded in the store. So a body that ended and is
recorded must never begin again (`repeated`). A body that failed is retried; one that a kill cut off, or that ended just before the
kill and is not recorded, may begin again.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections import Counter as Counts
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wakeful.demo.processes import pace

COUNTER = "WAKEFUL_DEMO_COUNTER"

Key = tuple[str, str]  # the name of a step, and the id that its run is about


def add_line(path: str | Path, **entry: Any) -> None:
    """Append a line in one unbuffered write: a kill leaves the whole line or nothing."""
    with Path(path).open("ab", buffering=0) as file:
        file.write(json.dumps(entry).encode() + b"\n")


def write_step(step: str, subject: str, what: str) -> None:
    """Append a line to steps.log, if a director reads it."""
    if (path := os.environ.get(COUNTER)) is not None:
        add_line(path, at=time.time(), worker=os.getpid(), step=step, subject=subject, what=what)


@asynccontextmanager
async def counted(step: str, subject: str, seconds: float) -> AsyncIterator[None]:
    """The body of a step that takes `seconds`: writes a line when it begins and one with its result."""
    write_step(step, subject, "began")
    ending = "stopped"
    try:
        await asyncio.sleep(seconds * pace())
        ending = "failed"
        yield
        ending = "finished"
    finally:
        write_step(step, subject, ending)


class Lines:
    """Reads a growing log file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._position = 0

    def added(self) -> list[dict[str, Any]]:
        """The lines added since the last call, without one that is still being written."""
        if not self.path.exists():
            return []
        with self.path.open("rb") as file:
            file.seek(self._position)
            whole, end, _ = file.read().rpartition(b"\n")
        self._position += len(whole + end)
        return [json.loads(line) for line in whole.splitlines()]


@dataclass(slots=True)
class Execution:
    """One execution of a step's body."""

    worker: int
    began_at: float
    ended: str | None = None  # finished, failed or stopped


class Counter(Lines):
    """Reads steps.log and finds repeated steps."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.executions: defaultdict[Key, list[Execution]] = defaultdict(list)
        self.finished = self.cut_off = self.unsaved = 0
        self.retried: list[Key] = []
        self.repeated: list[Key] = []
        self._recorded: set[Key] = set()  # in the store, when a worker died

    def read(self) -> None:
        """Read the lines added since the last call."""
        for line in self.added():
            key, worker = (line["step"], line["subject"]), line["worker"]
            executions = self.executions[key]
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
        """Record that a worker died while the store had these steps."""
        self.read()
        self._recorded.update(recorded)
        for key, executions in self.executions.items():
            endings = [one.ended for one in executions if one.worker == worker]
            self.cut_off += endings.count(None)
            self.unsaved += endings.count("finished") if key not in self._recorded else 0


class Book(Lines):
    """Reads the bank's book, which neither the worker nor the store can change."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.pages: defaultdict[str, Counts[str]] = defaultdict(Counts)  # by the reference of a refund

    def read(self) -> None:
        """Read the lines added since the last call."""
        for line in self.added():
            self.pages[line["reference"]][line["what"]] += 1

    def count(self, what: str, reference: str | None = None) -> int:
        """How often the bank did this, for one refund or for all."""
        return sum(page[what] for name, page in self.pages.items() if reference in {None, name})
