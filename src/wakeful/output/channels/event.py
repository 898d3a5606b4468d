"""`event("report.ready")`: each message becomes a new event, through intake like every other one.

The event has the message's id, so a retried delivery is a duplicate and starts nothing: from the run that sent it to
the run that it starts, a message is handled exactly once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from wakeful.clock import to_datetime
from wakeful.errors import ConfigError
from wakeful.intake.cloudevents import TEXT_LIMIT, from_envelope, new_event
from wakeful.model import Event
from wakeful.output.channels.base import Channel, Message, Surroundings
from wakeful.policy.loops import next_link

Accept = Callable[[list[Event]], Awaitable[Any]]


class EventChannel(Channel):
    """Sends messages as events of one type into the app that they come from."""

    repeats = "known"
    most = 200

    def __init__(self, type: str) -> None:  # noqa: A002 the word of CloudEvents
        if not isinstance(type, str) or not type or type != type.strip() or not type.isprintable():
            message = f'event({type!r}): the type is a text without spaces around it, like event("report.ready")'
            raise ConfigError(message)
        if "*" in type or len(type) > TEXT_LIMIT:
            message = f'event("{type[:40]}"): an event has one type: no "*", and at most {TEXT_LIMIT:,} characters'
            raise ConfigError(message)
        self.type = type
        self._accept: Accept | None = None

    async def open(self, around: Surroundings) -> None:
        if self._accept is not None and self._accept != around.accept:
            # Otherwise the messages of one app would enter another.
            message = f"{self!r} is in use by another app: declare a separate channel for each"
            raise ConfigError(message)
        self._accept = around.accept

    async def close(self) -> None:
        self._accept = None

    async def deliver(self, messages: Sequence[Message]) -> None:
        if self._accept is None:
            message = f"{self!r} is not open: it has no app to send events to"
            raise RuntimeError(message)
        await self._accept([self._event(message) for message in messages])

    def _event(self, message: Message) -> Event:
        """The event of a message: a link in the chain, like an event that a run emits."""
        inherited: dict[str, Any] = {}
        if message.envelope:
            cause = from_envelope(message.envelope)
            inherited = {
                "causationid": cause.id,
                "correlationid": cause.correlationid or cause.id,
                "traceparent": cause.traceparent,
                **next_link(cause, message.app, message.agent),
            }
        return new_event(
            self.type,
            message.body,
            source=f"/{message.app}/{message.agent}",
            id=message.id,
            subject=message.subject,
            time=to_datetime(message.committed_at),
            run=message.run,
            **{name: value for name, value in inherited.items() if value is not None},
        )

    def describe(self) -> dict[str, Any]:
        return {"kind": "event", "type": self.type}

    def __repr__(self) -> str:
        return f'event("{self.type}")'


def event(type: str) -> EventChannel:  # noqa: A002 the word of CloudEvents
    """Each message becomes an event of this type, with the message's body as its data and the message's subject."""
    return EventChannel(type)
