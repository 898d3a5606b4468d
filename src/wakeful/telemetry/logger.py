"""The logger of a part of Wakeful. structlog is loaded when a part that logs is made; a command that only looks makes none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger


def logger_of(**bound: Any) -> FilteringBoundLogger:
    """Wakeful's logger, with these fields on every line."""
    import structlog

    log: FilteringBoundLogger = structlog.get_logger("wakeful")
    return log.bind(**bound)
