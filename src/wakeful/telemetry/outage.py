"""An outage of the store in the log: one line when it begins, one a minute while it lasts, one when it is over.

Every part of a process meets the same outage, and each retries about once a second. Their own lines are logged at
debug; the operator reads one sequence.

    note ──► down ──(a minute)──► "still unavailable" …
              │ over
              ▼
             up ──(note within SETTLE)──► down again, silently ──(lasts for SETTLE)──► "unavailable again"
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from wakeful.clock import SECOND, readable
from wakeful.telemetry.logger import Logger, logger_of

EVERY = 60.0
SETTLE = 10.0

# The outage of the store that this task or thread works on. Tasks inherit it from the task that started them.
CURRENT: ContextVar[Outage | None] = ContextVar("wakeful_outage", default=None)


class Outage:
    """Whether one store can be reached from this process, for its log. Parts call it from several threads."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic, **bound: Any) -> None:
        self._bound = bound
        self._clock = clock
        self._lock = threading.Lock()
        self._began: float | None = None
        self._ended = -SETTLE
        self._told = 0.0
        self._tries = 0
        self._silent = False  # this outage began right after another one and was not logged yet

    def note(self, error: str) -> None:
        """A part could not reach the store."""
        now = self._clock()
        with self._lock:
            self._tries += 1
            if self._began is None:
                again = now - self._ended < SETTLE
                self._began, self._told, self._tries = now, now, 1
                self._silent = again  # a store that flaps is logged as one outage, not as many
                if again:
                    return
                message = "the store is unavailable; all parts try again until it is back"
            elif self._silent and now - self._began >= SETTLE:
                self._silent, self._told = False, now
                message = "the store is unavailable again; all parts try again until it is back"
            elif now - self._told >= EVERY:
                self._told = now
                message = "the store is still unavailable"
            else:
                return
            lasted, tries = now - self._began, self._tries
        logger_of(**self._bound).warning(message, error=error, lasted=_readable(lasted), tries=tries)

    def over(self) -> None:
        """The store has answered. Cheap if nothing was wrong."""
        if self._began is None:
            return
        with self._lock:  # another thread may have been faster
            began, self._began = self._began, None
            now = self._ended = self._clock()
            tries, silent = self._tries, self._silent
        if began is not None and not silent:
            logger_of(**self._bound).warning("the store is back", lasted=_readable(now - began), tries=tries)


def note_outage(log: Logger, message: str, error: BaseException, **fields: Any) -> None:
    """A part could not reach the store: add it to the process's outage, or log a line if there is none."""
    words = str(error) or type(error).__name__
    outage = CURRENT.get()
    if outage is None:
        log.warning(message, error=words, **fields)
        return
    log.debug(message, error=words, **fields)
    outage.note(words)


def outage_is_over() -> None:
    """The store has answered."""
    outage = CURRENT.get()
    if outage is not None:
        outage.over()


def _readable(seconds: float) -> str:
    return readable(round(seconds * SECOND))
