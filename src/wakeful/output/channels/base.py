"""What a channel is: a place where messages go, and nothing about when.

The outbox hands over messages in the order in which they were committed. A channel delivers all that it is handed, or
raises; then they come again, one at a time. So everything is delivered at least once, always under the same id, by which
the other side knows a repetition.
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
    """One delivery, as a channel sees it. `id` is the operation: the same however often it is tried."""

    id: str
    channel: str
    body: Any
    subject: str | None
    app: str
    agent: str
    run: str
    committed_at: Microseconds
    tries: int
    envelope: str = ""  # JSON of the event that the run handled: what this message comes from


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a channel may use of the app it belongs to: the one door, for those that send events."""

    accept: Callable[[list[Event]], Awaitable[Any]]


class Channel(ABC):
    """A place where messages go. A subclass of your own is as good as ours."""

    most: int = 1  # how many messages `deliver` takes at once
    timeout: Duration = "30s"  # for one call of `deliver`
    # Failures of one message before it is a dead letter. None: an outage is put up with for a day, an unknown kind of error
    # for `UNKNOWN_ATTEMPTS` tries.
    attempts: int | None = None
    backoff: Backoff | Duration = Backoff(first="1s", cap="5m")

    async def open(self, around: Surroundings) -> None:  # noqa: B027 most have nothing to do
        """Before the first delivery in a process. This and the others may be plain functions: they run in a thread."""

    async def close(self) -> None:  # noqa: B027
        """After the last one."""

    @abstractmethod
    async def deliver(self, messages: Sequence[Message]) -> None:
        """Deliver all of them, in order, or raise. Errors are classified as those of a step: what may go away is tried
        again with the same id, what will not (a 4xx, `Persistent`) makes the message a dead letter at once.
        """

    def missing(self) -> list[str]:
        """What it needs of its surroundings, like `env("NAME")`, and would not find if it were opened here; in words."""
        return []

    def describe(self) -> dict[str, Any]:
        """The channel for people and JSON. Never a secret."""
        return {"kind": type(self).__name__.lower()}


@dataclass(frozen=True, slots=True)
class Handling:
    """How messages are handed to a channel: what it declares, read and checked."""

    most: int
    timeout: Microseconds
    attempts: int | None
    backoff: Backoff


def handling_of(channel: Channel, *, where: str) -> Handling:
    """What a channel declares. ConfigError for what could not work: better now than with the first message."""
    declared = {name: getattr(channel, name) for name in ("most", "timeout", "attempts", "backoff")}
    if declared["timeout"] is None:
        message = f'{where}: timeout: a delivery needs a time limit, like "30s"'
        raise ConfigError(message)
    return read_options(Handling, declared, where=where)
