"""The common form of all background parts: start, stop, wake, run_once.

`run_once` does one unit of work and returns how long to rest before the next (None: until woken). The loop around it is
only here, so that a test calls `run_once` and never waits for a loop.

A process has one table of such parts. They are started in its order and stopped in reverse.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable
from dataclasses import dataclass
from typing import Any

from wakeful.errors import StoreUnavailable
from wakeful.telemetry.logger import Logger, logger_of
from wakeful.telemetry.outage import note_outage

AFTER_AN_ERROR = 1.0


class Service(ABC):
    """A background part. Starting or stopping it twice is safe."""

    name: str = "service"

    def __init__(self) -> None:
        self.log: Logger = logger_of(part=self.name)
        self._task: asyncio.Task[None] | None = None
        self._woken = asyncio.Event()
        self._due: float | None = (
            None  # when the next run_once is due, or the current one began; None: it rests until woken
        )

    @abstractmethod
    async def run_once(self) -> float | None:
        """Do one unit of work; return the seconds until the next, or None to rest until woken."""

    async def start(self) -> None:
        if self._task is None:
            self._due = time.monotonic()
            self._task = asyncio.create_task(self._loop(), name=f"wakeful {self.name}")

    async def stop(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
            if not task.cancelled() and (error := task.exception()) is not None:
                self.log.error("ended by itself", error=repr(error))

    @property
    def runs(self) -> bool:
        """Whether its loop is running."""
        return self._task is not None

    @property
    def silent_for(self) -> float:
        """For how many seconds its next look is overdue. Zero while it rests or is stopped."""
        if self._task is None:
            return 0.0
        if self._task.done():
            return math.inf
        return 0.0 if self._due is None else max(0.0, time.monotonic() - self._due)

    def wake(self) -> None:
        """End the current rest."""
        self._woken.set()

    @staticmethod
    def _must_end(error: BaseException) -> bool:
        """Whether the process or this service is being stopped. A CancelledError that was not sent to this task came
        out of the work: ending on it would stop the service unnoticed.
        """
        if isinstance(error, asyncio.CancelledError):
            task = asyncio.current_task()
            return task is None or task.cancelling() > 0
        return isinstance(error, KeyboardInterrupt | SystemExit)

    async def _loop(self) -> None:
        while True:
            self._woken.clear()
            if self._due is None:
                self._due = time.monotonic()
            try:
                rest = await self.run_once()
                self._due = None if rest is None else time.monotonic() + rest
            except StoreUnavailable as error:
                note_outage(self.log, "the store is unavailable; trying again", error, again_in=AFTER_AN_ERROR)
                rest = AFTER_AN_ERROR
            except BaseException as error:
                if self._must_end(error):
                    raise
                self.log.exception("failed; going on", again_in=AFTER_AN_ERROR)
                rest = AFTER_AN_ERROR
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(rest):
                    await self._woken.wait()


@dataclass(frozen=True, slots=True)
class Part:
    """A row of the table of services: how one part starts, stops, and ends when its process is killed."""

    name: str
    start: Callable[[], Awaitable[None]]
    stop: Callable[[], Awaitable[None]]
    die: Callable[[], Awaitable[None]] | None = None  # default: `stop`

    @classmethod
    def of(cls, service: Service) -> Part:
        """The part of a plain service."""
        return cls(service.name, service.start, service.stop)


class Services:
    """The parts of a process: started in this order, stopped in reverse."""

    def __init__(self, parts: Iterable[Part]) -> None:
        self._parts = list(parts)
        self._begun: list[Part] = []

    @property
    def names(self) -> list[str]:
        return [part.name for part in self._parts]

    async def start(self, *, without: Collection[str] = ()) -> None:
        """Start all parts but `without`. After an error the parts that were started, and the failed one, must still be
        stopped.
        """
        for part in self._parts:
            if part.name not in without:
                self._begun.append(part)
                await part.start()

    async def stop(self) -> None:
        """Stop the started parts, the last first. All are stopped even if one fails; the first error is raised at the
        end.
        """
        first: BaseException | None = None
        while self._begun:
            try:
                await self._begun.pop().stop()
            except BaseException as error:
                first = first or error
        if first is not None:
            raise first

    async def die(self) -> None:
        """Like stop, for a process that is killed."""
        while self._begun:
            part = self._begun.pop()
            await (part.die or part.stop)()


class Background:
    """Tasks that run beside their caller. They are referenced here, so that they are not garbage-collected."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def cancel(self) -> None:
        for task in list(self._tasks):
            task.cancel()
