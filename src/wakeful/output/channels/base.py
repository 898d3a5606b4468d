"""The interface of channels: a channel is a place where messages go, and decides nothing about when.

The outbox passes messages in the order in which they were committed. A channel delivers all of them, or raises; then
they come again, one at a time. So every message is delivered at least once, always under the same id, by which the
other side recognises a repetition.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from wakeful.clock import Duration, Microseconds
from wakeful.errors import ConfigError
from wakeful.functions.options import Backoff, read_options
from wakeful.model import Event

UNKNOWN_ATTEMPTS = 8


@dataclass(frozen=True, slots=True)
class Message:
    """One delivery, as a channel sees it. `id` is the operation id: the same at every try."""

    id: str
    channel: str
    body: Any
    subject: str | None
    app: str
    agent: str
    run: str
    committed_at: Microseconds
    tries: int
    envelope: str = ""  # JSON of the event that the run handled


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The parts of the app that a channel may use: intake, for channels that send events."""

    accept: Callable[[list[Event]], Awaitable[Any]]


class Channel(ABC):
    """A place where messages go. Write a subclass for a channel of your own."""

    most: int = 1  # the most messages for one call of `deliver`
    timeout: Duration = "30s"  # for one call of `deliver`
    # Failures of one message before it is a dead letter. None: an outage is retried for a day, an unknown kind of error
    # for `UNKNOWN_ATTEMPTS` tries.
    attempts: int | None = None
    backoff: Backoff | Duration = Backoff(first="1s", cap="5m")

    async def open(self, around: Surroundings) -> None:  # noqa: B027 most have nothing to do
        """Called before the first delivery in a process. All methods may also be plain functions: they run in a thread."""

    async def close(self) -> None:  # noqa: B027
        """Called after the last delivery."""

    @abstractmethod
    async def deliver(self, messages: Sequence[Message]) -> None:
        """Deliver all messages, in order, or raise. Errors are classified like those of a step: a transient one is
        retried with the same id, a persistent one (a 4xx, `Persistent`) makes the message a dead letter at once.
        """

    def missing(self) -> list[str]:
        """What it needs but would not find if it were opened here, such as `env("NAME")`; in words."""
        return []

    def describe(self) -> dict[str, Any]:
        """The channel for listings and JSON. Never includes a secret."""
        return {"kind": type(self).__name__.lower()}


@dataclass(frozen=True, slots=True)
class Handling:
    """How messages are passed to a channel: its declared settings, checked."""

    most: int
    timeout: Microseconds
    attempts: int | None
    backoff: Backoff


def handling_of(channel: Channel, *, where: str) -> Handling:
    """The declared settings of a channel. ConfigError for settings that could not work, before the first message."""
    declared = {name: getattr(channel, name) for name in ("most", "timeout", "attempts", "backoff")}
    if declared["timeout"] is None:
        message = f'{where}: timeout: a delivery needs a time limit, like "30s"'
        raise ConfigError(message)
    return read_options(Handling, declared, where=where)
