"""The logger of a part of Wakeful. structlog is loaded when a part that logs is made; a command that only looks makes none."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger


# Set where --log-format json was asked for: a program reads what this process says, all of it.
SPEAKS_JSON: ContextVar[bool] = ContextVar("wakeful_speaks_json", default=False)


def logger_of(**bound: Any) -> FilteringBoundLogger:
    """Wakeful's logger, with these fields on every line."""
    import structlog

    log: FilteringBoundLogger = structlog.get_logger("wakeful")
    return log.bind(**bound)
