"""The pace of long-running work, and how to stop it: between two batches, never inside one."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TypeVar

BATCH = 1_000
BATCHES_A_SECOND = 10

Progress = Callable[[int, int], None]
T = TypeVar("T")


def unseen(_done: int, _of: int) -> None:
    """Progress output that prints nothing."""


class Pace:
    """A rate per second, in batches; None is as fast as the store allows. `stop` ends the work between two batches."""

    def __init__(self, rate: float | None = None, stop: asyncio.Event | None = None) -> None:
        self._rate = rate
        self._stop = stop or asyncio.Event()
        self._began: float | None = None
        self.cut_short = False  # stopped while work was left
        self.batch = BATCH if rate is None else min(BATCH, max(1, round(rate / BATCHES_A_SECOND)))

    def batches(self, things: Sequence[T]) -> Iterator[Sequence[T]]:
        for start in range(0, len(things), self.batch):
            yield things[start : start + self.batch]

    async def turn(self, done: int) -> bool:
        """Wait after `done` items until the next batch may start; False if the work must stop."""
        now = asyncio.get_running_loop().time()
        if self._began is None:
            self._began = now
        return await self.rest(0.0 if self._rate is None else self._began + done / self._rate - now)

    async def rest(self, wait: float) -> bool:
        """Wait for that long; False if the work must stop."""
        if wait > 0:
            try:
                await asyncio.wait_for(self._stop.wait(), wait)
            except TimeoutError:
                return True
        self.cut_short = self._stop.is_set()
        return not self.cut_short


async def carry_out(
    things: Sequence[T],
    do: Callable[[Sequence[T]], Awaitable[int]],
    *,
    pace: Pace | None = None,
    progress: Progress = unseen,
) -> int:
    """Handle all items, batch by batch; `do` returns how many of a batch it handled. Returns the total."""
    pace = pace or Pace()
    done = seen = 0
    for batch in pace.batches(things):
        if not await pace.turn(seen):
            break
        done += await do(batch)
        seen += len(batch)
        progress(seen, len(things))
    return done


def read_rate(text: str) -> float | None:
    """Parse `20/s`, `600/m`, a plain number (per second) or `max`. Raises ValueError for anything else."""
    if text == "max":
        return None
    number, _, unit = text.partition("/")
    seconds = {"": 1, "s": 1, "m": 60, "h": 3600}.get(unit)
    try:
        value = float(number)
    except ValueError:
        value = 0.0
    if seconds is None or not (0 < value < math.inf):
        message = f"{text!r} is not a rate: write 20/s, 600/m, 1000/h or max"
        raise ValueError(message)
    return value / seconds


def shown_rate(rate: float | None) -> str:
    return "as fast as the store allows" if rate is None else f"at {rate:g}/s"
