"""The moments at which a process can die: before a transaction, within it just before its COMMIT, and after it.

A `Boundaries` is the probe of a runtime: `Runtime(app, probe=Boundaries(crash_at=7))`. It counts the boundaries, and at
the chosen one it kills the process with SIGKILL, stops it with SIGSTOP, or calls `die`.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass
from typing import Any

CLAIM = "ClaimRuns"  # joins any transaction, or goes alone, so it does not identify a boundary


@dataclass(frozen=True, slots=True)
class Boundary:
    """One moment around a commit, and the requests of the transaction.

    `key` is the same whenever the same requests are about to be stored, by any process and alongside any other
    requests. The number of a boundary is not: it depends on how requests are grouped into transactions.
    """

    number: int
    point: str
    requests: tuple[str, ...]
    key: str = ""
    about: str = ""

    def __str__(self) -> str:
        return f"{self.number}, {self.point} {self.about or ' + '.join(self.requests)}"

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def halt() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


class Boundaries:
    """Counts boundaries, and kills or stops the process at one of them.

    crash_at   die at the n-th boundary
    crash_on   die at the first boundary at this point of a transaction with exactly these requests
    but_not    die at the first boundary whose key is not one of these
    stop_at    stop at the n-th boundary
    stop_in    stop within the n-th transaction
    stop_on    stop at the first boundary at this point of a transaction with exactly these requests
    single     run batches as single statements, as in production; these have no moment within them
    passed     called with each boundary
    reached    called with the boundary at which it dies or stops, just before it does
    """

    def __init__(
        self,
        *,
        crash_at: int | None = None,
        crash_on: tuple[str, list[str]] | None = None,
        but_not: Collection[str] | None = None,
        stop_at: int | None = None,
        stop_in: int | None = None,
        stop_on: tuple[str, list[str]] | None = None,
        single: bool = False,
        passed: Callable[[Boundary], None] = lambda _: None,
        reached: Callable[[Boundary], None] = lambda _: None,
        die: Callable[[], None] = kill,
    ) -> None:
        self._crash_at = crash_at
        self._crash_on = crash_on
        self._but_not = but_not
        self._stop_at = stop_at
        self._stop_in = stop_in
        self._stop_on = stop_on
        self._passed = passed
        self._reached = reached
        self._die = die
        self._transactions = 0
        self._keys: Counter[str] = Counter()
        self.plain = single  # read by the journal
        self.count = 0

    def __call__(self, point: str, requests: Sequence[Any]) -> None:
        self.count += 1
        boundary = self._boundary(point, requests)
        self._transactions += point == "within"
        if point == "within" and self._transactions == self._stop_in:
            self._stop_at = self.count
        if self._stop_on is not None and tuple(self._stop_on) == (point, list(boundary.requests)):
            self._stop_at, self._stop_on = self.count, None
        if self._crash_on is not None and tuple(self._crash_on) == (point, list(boundary.requests)):
            self._crash_at, self._crash_on = self.count, None
        if self._but_not is not None and self._crash_at is None and boundary.key not in self._but_not:
            self._crash_at = self.count
        self._passed(boundary)
        if self.count in {self._crash_at, self._stop_at}:
            self._reached(boundary)
        if self.count == self._crash_at:
            self._die()
        if self.count == self._stop_at:
            halt()

    def _boundary(self, point: str, requests: Sequence[Any]) -> Boundary:
        kinds = tuple(type(one).__name__ for one in requests)
        told = [one for one in requests if type(one).__name__ != CLAIM] or requests[:1]
        about = " + ".join(sorted(words(one) for one in told))
        key = f"{point} {about}"
        self._keys[key] += 1
        return Boundary(self.count, point, kinds, f"{key} {self._keys[key]}", about)


def words(request: Any) -> str:
    """A stable description of what a request stores: review: SaveSteps fetch."""
    claim, effect = getattr(request, "claim", None), getattr(request, "effect", None)
    state = getattr(request, "state", None)  # of the run or the effect; an agent's state is not a string
    parts = [
        f"{claim.agent}:" if claim is not None else "",
        type(request).__name__,
        str(getattr(request, "channel", "")),
        state if isinstance(state, str) else "",
        *(step.name for step in steps_of(request)),
        f"{effect.action} {effect.state}" if effect is not None else "",
    ]
    return " ".join(part for part in parts if part)


def steps_of(request: Any) -> list[Any]:
    step = getattr(request, "step", None)
    return [*(getattr(request, "steps", None) or ()), *([step] if step is not None else [])]
