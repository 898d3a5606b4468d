"""One shape for everything that runs in the background: start, stop, wake, run_once.

`run_once` does one unit of work and returns how long to rest before the next (None: until woken). The loop around it
is here and nowhere else, so that a test calls `run_once` and never has to wait for a loop.
"""

from __future__ import annotations

import asyncio
import contextlib
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import structlog

from wakeful.errors import StoreUnavailable

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

AFTER_AN_ERROR = 1.0


class Service(ABC):
    """A background part. Safe to start twice and to stop twice."""

    name: str = "service"

    def __init__(self) -> None:
        self.log: FilteringBoundLogger = structlog.get_logger("wakeful").bind(part=self.name)
        self._task: asyncio.Task[None] | None = None
        self._woken = asyncio.Event()

    @abstractmethod
    async def run_once(self) -> float | None:
        """Do one unit of work; return the seconds until the next, or None to rest until woken."""

    async def start(self) -> None:
        if self._task is None:
            self._task = asyncio.create_task(self._loop(), name=f"wakeful {self.name}")

    async def stop(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
            if not task.cancelled() and (error := task.exception()) is not None:
                self.log.error("ended by itself", error=repr(error))

    def wake(self) -> None:
        """Cut the present rest short."""
        self._woken.set()

    @staticmethod
    def _must_end(error: BaseException) -> bool:
        """Somebody ends the process, or this service. A CancelledError that nobody sent came out of the work: a service
        that ended on that would be missed by nobody.
        """
        if isinstance(error, asyncio.CancelledError):
            task = asyncio.current_task()
            return task is None or task.cancelling() > 0
        return isinstance(error, KeyboardInterrupt | SystemExit)

    async def _loop(self) -> None:
        while True:
            self._woken.clear()
            try:
                rest = await self.run_once()
            except StoreUnavailable as error:
                self.log.warning("the store is unavailable; trying again", error=str(error), again_in=AFTER_AN_ERROR)
                rest = AFTER_AN_ERROR
            except BaseException as error:
                if self._must_end(error):
                    raise
                self.log.exception("failed; going on", again_in=AFTER_AN_ERROR)
                rest = AFTER_AN_ERROR
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(rest):
                    await self._woken.wait()
