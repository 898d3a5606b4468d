"""Where Wakeful's log lines go: to structlog if the host program has configured it, otherwise to `logging`.

    line ──► structlog, if it is configured (the commands do; a host program may) ──► its processors
        └──► logging.getLogger("wakeful"), otherwise ──► the handlers of the host program, or none

A library does not print. The choice is made for each line, because a host may configure its logs after importing an
app. structlog is not imported here: if no one has imported it, no one has configured it.
"""

from __future__ import annotations

import logging
import sys
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from wakeful.redaction import redact

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

# Set by --log-format json: a program reads everything that this process prints.
SPEAKS_JSON: ContextVar[bool] = ContextVar("wakeful_speaks_json", default=False)

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}

# Attributes that every record has, and the two that a formatter sets: `extra` may not use these names.
TAKEN = {*vars(logging.makeLogRecord({})), "message", "asctime"}


class Logger:
    """A logger with fields on every line. Lines have the levels of `logging`, and named fields like structlog's."""

    __slots__ = ("_bound", "_name", "_structured")

    def __init__(self, name: str = "wakeful", /, **bound: Any) -> None:
        self._name = name
        self._bound = bound
        self._structured: FilteringBoundLogger | None = None

    def bind(self, **more: Any) -> Logger:
        """A logger with these fields as well."""
        return Logger(self._name, **{**self._bound, **more})

    def debug(self, message: str, /, **fields: Any) -> None:
        self.say("debug", message, fields)

    def info(self, message: str, /, **fields: Any) -> None:
        self.say("info", message, fields)

    def warning(self, message: str, /, **fields: Any) -> None:
        self.say("warning", message, fields)

    def error(self, message: str, /, **fields: Any) -> None:
        self.say("error", message, fields)

    def exception(self, message: str, /, **fields: Any) -> None:
        """Log an error with the exception that is being handled."""
        self.say("error", message, {"exc_info": True, **fields})

    def say(self, level: str, message: str, fields: dict[str, Any], *, depth: int = 2) -> None:
        """Write one line. The code that the line is about is `depth` calls above this one."""
        structlog = sys.modules.get("structlog")
        if structlog is None or not structlog.is_configured():
            self._to_logging(LEVELS[level], message, fields, depth)
            return
        if self._structured is None:
            # Lazy: it follows the current configuration, as far as that lets loggers do so.
            self._structured = structlog.get_logger(self._name, **self._bound)
        getattr(self._structured, level)(message, **fields)

    def _to_logging(self, level: int, message: str, fields: dict[str, Any], depth: int) -> None:
        log = logging.getLogger(self._name)
        if not log.isEnabledFor(level):
            return
        known = {**_of_the_run(), **self._bound, **fields}
        exc_info = known.pop("exc_info", None)
        cleaned = {name: redact(value) if isinstance(value, str) else value for name, value in known.items()}
        text = redact(" ".join([str(message), *(f"{name}={_shown(value)}" for name, value in cleaned.items())]))
        extra = {f"{name}_" if name in TAKEN else name: value for name, value in cleaned.items()}
        extra["event"] = redact(message) if isinstance(message, str) else message
        log.log(level, text, exc_info=exc_info, extra=extra, stacklevel=depth + 2)


def logger_of(**bound: Any) -> Logger:
    """Wakeful's logger, with these fields on every line."""
    return Logger(**bound)


def _of_the_run() -> dict[str, Any]:
    """The fields of the current run. The executor binds them through structlog."""
    structlog = sys.modules.get("structlog")
    if structlog is None:
        return {}
    from wakeful.model import trace_id

    bound: dict[str, Any] = structlog.contextvars.get_contextvars()
    trace = trace_id(bound.pop("trace", None))
    return bound if trace is None else {**bound, "trace_id": trace}


def _shown(value: Any) -> str:
    """A value within a line. Quoted if its end would be ambiguous, or if it could affect a terminal."""
    if not isinstance(value, str):
        return repr(value)
    return value if value.isprintable() and value and not set(value) & set(" \"'=") else repr(value)


def _without_secrets(record: logging.LogRecord) -> bool:
    """Make the redacted text of a line's traceback here: a formatter then uses it instead of making its own."""
    if record.exc_info and record.exc_text is None:
        from traceback import format_exception

        record.exc_text = redact("".join(format_exception(*record.exc_info)).rstrip("\n"))
    return True


# Without a handler of the host, `logging` would print warnings to standard error.
logging.getLogger("wakeful").addHandler(logging.NullHandler())
logging.getLogger("wakeful").addFilter(_without_secrets)
