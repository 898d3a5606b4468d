"""Virtual time, moved by the test: sleeps inside an attempt, and its deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta

from wakeful.clock import SECOND, Microseconds, VirtualClock


@dataclass(slots=True, eq=False)
class Timer:
    """A callback to run when the clock has reached `due`, unless it is cancelled."""

    due: Microseconds
    callback: Callable[[], None]
    timers: list[Timer] = field(repr=False)

    def cancel(self) -> None:
        if self in self.timers:
            self.timers.remove(self)


class VirtualTime:
    """Sleeps and timers by a virtual clock."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self._timers: list[Timer] = []
        self.sleeping = 0

    async def sleep(self, delay: float) -> None:
        """Wait until the clock has moved by this many seconds."""
        if delay <= 0:
            await asyncio.sleep(0)
            return
        woken = asyncio.get_running_loop().create_future()
        woken.add_done_callback(self._woke)
        self.sleeping += 1
        timer = self.later(delay, lambda: wake(woken))
        try:
            await woken
        finally:
            timer.cancel()

    def _woke(self, _woken: asyncio.Future[None]) -> None:
        self.sleeping -= 1

    def later(self, delay: float, callback: Callable[[], None]) -> Timer:
        """Call this once the clock has moved by this many seconds."""
        timer = Timer(self._clock.now() + round(delay * SECOND), callback, self._timers)
        self._timers.append(timer)
        return timer

    def next_due(self) -> Microseconds | None:
        """The due time of the first timer."""
        return min((timer.due for timer in self._timers), default=None)

    def move_to(self, moment: Microseconds) -> None:
        """Move the clock, never back, and run the callbacks that are due by then, in order."""
        self._clock.move(timedelta(microseconds=max(0, moment - self._clock.now())))
        for timer in sorted(self._timers, key=lambda one: one.due):
            if timer.due <= self._clock.now() and timer in self._timers:
                timer.cancel()
                timer.callback()


def wake(sleeper: asyncio.Future[None]) -> None:
    if not sleeper.done():
        sleeper.set_result(None)
