"""Drops the log lines that tasks of a dead process still write on their way out.

Tasks inherit the life in which they were started. A structlog processor in front of all others, and a `logging` filter,
check whether that life is over.
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
    """Everything started in this block belongs to one life."""
    token = _LIFE.set(is_dead)
    try:
        yield
    finally:
        _LIFE.reset(token)


@contextlib.contextmanager
def silence_of_the_dead() -> Iterator[None]:
    """Drop log lines of dead lives. The list of processors is changed in place: loggers already in use keep a reference
    to it.
    """
    processors = structlog.get_config()["processors"]
    loggers = [
        logging.getLogger(name) for name in ("wakeful", "wakeful.run")
    ]  # a filter does not apply to child loggers

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
