"""Where a process can die: before a transaction, within it when only its COMMIT is missing, and after it.

A `Boundaries` is the probe of a runtime: `Runtime(app, probe=Boundaries(crash_at=7))`. It counts what it passes, and at the
one that was asked for it ends the process by SIGKILL, stops it by SIGSTOP, or does what it was told to do instead.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Boundary:
    """One moment around a commit, and what the transaction carries."""

    number: int
    point: str
    requests: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.number}, {self.point} {' + '.join(self.requests)}"

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def halt() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


class Boundaries:
    """Counts boundaries, and lets the process die or stop at one of them.

    crash_at   die at the n-th boundary
    stop_at    stop there
    stop_in    stop within the n-th transaction
    stop_on    stop at the first boundary at this point of a transaction with just these requests
    single     let batches be single statements, as in production, which have no moment within them
    passed     is told of each boundary
    reached    is told of the one where it dies or stops, just before it does
    """

    def __init__(
        self,
        *,
        crash_at: int | None = None,
        stop_at: int | None = None,
        stop_in: int | None = None,
        stop_on: tuple[str, list[str]] | None = None,
        single: bool = False,
        passed: Callable[[Boundary], None] = lambda _: None,
        reached: Callable[[Boundary], None] = lambda _: None,
        die: Callable[[], None] = kill,
    ) -> None:
        self._crash_at = crash_at
        self._stop_at = stop_at
        self._stop_in = stop_in
        self._stop_on = stop_on
        self._passed = passed
        self._reached = reached
        self._die = die
        self._transactions = 0
        self.plain = single  # the journal looks for this
        self.count = 0

    def __call__(self, point: str, requests: Sequence[Any]) -> None:
        self.count += 1
        boundary = Boundary(self.count, point, tuple(type(one).__name__ for one in requests))
        self._transactions += point == "within"
        if point == "within" and self._transactions == self._stop_in:
            self._stop_at = self.count
        if self._stop_on is not None and tuple(self._stop_on) == (point, list(boundary.requests)):
            self._stop_at, self._stop_on = self.count, None
        self._passed(boundary)
        if self.count in {self._crash_at, self._stop_at}:
            self._reached(boundary)
        if self.count == self._crash_at:
            self._die()
        if self.count == self._stop_at:
            halt()
