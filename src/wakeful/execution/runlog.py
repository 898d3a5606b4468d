"""The log of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wakeful.redaction import redact
from wakeful.telemetry.logger import Logger

if TYPE_CHECKING:
    from wakeful.execution.attempt import Attempt


class RunLog:
    """The run's log: structured, with run and agent. Silent while recorded work is replayed."""

    __slots__ = ("_attempt", "_logger")

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt
        self._logger = Logger("wakeful.run")

    def debug(self, message: str, **fields: Any) -> None:
        self._say("debug", message, fields)

    def info(self, message: str, **fields: Any) -> None:
        self._say("info", message, fields)

    def warning(self, message: str, **fields: Any) -> None:
        self._say("warning", message, fields)

    def error(self, message: str, **fields: Any) -> None:
        self._say("error", message, fields)

    def _say(self, level: str, message: str, fields: dict[str, Any]) -> None:
        self._attempt.progress()
        if not self._attempt.record.replaying:
            # Redacted here too, not only where lines are written: a program that embeds an app has its own log.
            cleaned = {name: redact(value) if isinstance(value, str) else value for name, value in fields.items()}
            self._logger.say(level, redact(message) if isinstance(message, str) else message, cleaned, depth=3)
