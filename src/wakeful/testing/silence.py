"""A process that is dead says nothing any more: what its tasks still log, on their way out, is dropped.

Tasks inherit the life in which they were begun. A processor of structlog in front of all others, and a filter of `logging`, ask
whether that is over.
"""

from __future__ import annotations

import contextlib
import logging
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
    loggers = [logging.getLogger(name) for name in ("wakeful", "wakeful.run")]  # a filter does not hold for children

    def speaks(_record: logging.LogRecord) -> bool:
        is_dead = _LIFE.get()
        return is_dead is None or not is_dead()

    def drop(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
        is_dead = _LIFE.get()
        if is_dead is not None and is_dead():
            raise structlog.DropEvent
        return event

    processors.insert(0, drop)
    for logger in loggers:
        logger.addFilter(speaks)
    try:
        yield
    finally:
        processors.remove(drop)
        for logger in loggers:
            logger.removeFilter(speaks)
