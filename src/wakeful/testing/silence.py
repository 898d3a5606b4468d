"""A process that is dead says nothing any more: what its tasks still log, on their way out, is dropped.

Tasks inherit the life in which they were begun, and a processor in front of all others asks whether that is over.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar

import structlog
from structlog.typing import EventDict, WrappedLogger

IsDead = Callable[[], bool]
_LIFE: ContextVar[IsDead | None] = ContextVar("wakeful_testing_life", default=None)


@contextlib.contextmanager
def lived(is_dead: IsDead) -> Iterator[None]:
    """Whatever is begun in this block belongs to one life."""
    token = _LIFE.set(is_dead)
    try:
        yield
    finally:
        _LIFE.reset(token)


@contextlib.contextmanager
def silence_of_the_dead() -> Iterator[None]:
    """The processors are changed where they are: loggers that were used before keep hold of that list."""
    processors = structlog.get_config()["processors"]

    def drop(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
        is_dead = _LIFE.get()
        if is_dead is not None and is_dead():
            raise structlog.DropEvent
        return event

    processors.insert(0, drop)
    try:
        yield
    finally:
        processors.remove(drop)
