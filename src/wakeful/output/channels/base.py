"""The interface of channels: a channel is a place where messages go, and decides nothing about when.

The outbox passes messages in the order in which they were committed. A channel delivers all of them, or raises.

What happens after a crash, a timeout or a 5xx, when a message may have arrived although no answer came, depends on the other side:

    repeats   the other side                       a message in doubt
    known     recognises the id of a message       goes again under the same id
    find      can be asked for it (`find`)         is looked for after `settle`, and goes again if it is not there. If the other
                                                   side cannot tell (`find` fails for good), it is a dead letter, or
                                                   waits for a person (`on_doubt`)
    doubt     does neither                         goes again as a possible repetition, or waits for a person (`on_doubt`)

With "known", a failed call for several messages is repeated one by one. With the others each message has a call of its own, and is
stored as begun before it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

from wakeful.clock import Duration, Microseconds
from wakeful.errors import ConfigError
from wakeful.functions.options import Backoff, read_options
from wakeful.model import Event
from wakeful.stores.verbs.outbox import Closes

UNKNOWN_ATTEMPTS = 8
Repeats = Literal["known", "find", "doubt"]
OnDoubt = Literal["repeat", "hold"]
# For texts that people read, if a message is repeated without knowledge.
MAY_BE_REPEATED = "This message may be a repetition: an earlier try may have arrived."


@dataclass(frozen=True, slots=True)
class Sent:
    """What the other side answered: its own id of the message, and where people find it. Stored as evidence of the delivery.

    `closes` says what does not go out any more: "earlier", the messages that were sent before this one in its thread, or the whole
    "thread". So no trigger is repeated after its resolve.
    """

    id: str | None = None
    url: str | None = None
    closes: Closes | None = None


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
    thread: str | None = None  # messages of one thread belong together
    urgent: bool = False
    doubtful: bool = False  # an earlier try may have arrived, and the other side could not be asked


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The parts of the app that a channel may use: intake, for channels that send events."""

    accept: Callable[[list[Event]], Awaitable[Any]]


class Channel(ABC):
    """A place where messages go. Write a subclass for a channel of your own."""

    repeats: Repeats = "doubt"  # how a repetition is recognised: see the top of this file
    settle: Duration = "30s"  # with "find": how long after a call the other side can be asked for its message
    on_doubt: OnDoubt = (
        "repeat"  # "hold" leaves a message to a person: each one in doubt, or with "find" those not even a look settles
    )
    most: int = 1  # the most messages for one call of `deliver`; only with "known"
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
    async def deliver(self, messages: Sequence[Message]) -> Sequence[Sent | None] | None:
        """Deliver all messages, in order, or raise. May return what the other side answered, one for each message. Errors are classified
        like those of a step: a transient one is retried with the same id, a persistent one (a 4xx, `Persistent`) makes the message a
        dead letter at once. `NotSent` says that the message certainly did not leave.
        """

    async def find(self, message: Message) -> Sent | None:
        """With `repeats="find"`: ask the other side for a message that may have arrived. None: it does not have it. If the other side
        cannot tell, raise: a transient error is asked about again later.
        """
        raise NotImplementedError

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
    repeats: Repeats
    settle: Microseconds
    on_doubt: OnDoubt

    @property
    def begins(self) -> Literal["none", "new", "all"]:
        """Which deliveries are stored as begun when they are taken. One in doubt is looked for or held first."""
        if self.repeats == "known":
            return "none"
        return "all" if self.repeats == "doubt" and self.on_doubt == "repeat" else "new"


def handling_of(channel: Channel, *, where: str) -> Handling:
    """The declared settings of a channel. ConfigError for settings that could not work, before the first message."""
    declared = {one.name: getattr(channel, one.name) for one in fields(Handling)}
    if declared["timeout"] is None:
        message = f'{where}: timeout: a delivery needs a time limit, like "30s"'
        raise ConfigError(message)
    if declared["settle"] is None:
        message = f'{where}: settle: how long until a message can be found, like "30s"'
        raise ConfigError(message)
    if declared["repeats"] == "find" and type(channel).find is Channel.find:
        message = f'{where}: repeats="find" needs a method `find(message)`, which asks the other side for a message'
        raise ConfigError(message)
    read = read_options(Handling, declared, where=where)
    return read if read.repeats == "known" else replace(read, most=1)
