"""`log()`: one log line for each message. For a first look, or if a log collector passes messages on to people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, get_args

from wakeful.clock import to_text
from wakeful.errors import ConfigError, did_you_mean
from wakeful.output.channels.base import Channel, Message
from wakeful.telemetry.logger import logger_of

Level = Literal["debug", "info", "warning", "error"]


class Log(Channel):
    """Writes messages to the process's own log."""

    repeats = "known"
    most = 200

    def __init__(self, level: Level = "info") -> None:
        if level not in get_args(Level):
            message = f'log(): no level "{level}".{did_you_mean(str(level), get_args(Level))}'
            raise ConfigError(message)
        self.level = level

    async def deliver(self, messages: Sequence[Message]) -> None:
        say = getattr(logger_of(), self.level)
        for message in messages:
            say(
                "message",
                channel=message.channel,
                subject=message.subject,
                body=message.body,
                id=message.id,
                app=message.app,
                agent=message.agent,
                run=message.run,
                committed_at=to_text(message.committed_at),
            )

    def describe(self) -> dict[str, Any]:
        return {"kind": "log", "level": self.level}

    def __repr__(self) -> str:
        return f'log(level="{self.level}")'


def log(*, level: Level = "info") -> Log:
    """One structured log line for each message, at this level."""
    return Log(level)
