"""Captures what an app's channels send in a world, instead of sending it.

lane ──► fake, if there is one ──► raises: not delivered, retried by the rules of the channel
            │
            └──► the channel itself, if it leads back into the app or deliver=True ──► stored in the mail
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from wakeful.functions.call import call
from wakeful.output.channels.base import Channel, Message, Sent, Surroundings

Ask = Callable[[Message], Awaitable[None]]


class Mail:
    """All messages delivered in a world, in the order of arrival. A repeated message is recognised by its id."""

    def __init__(self) -> None:
        self._messages: dict[str, Message] = {}

    def add(self, messages: Sequence[Message]) -> None:
        for message in messages:
            self._messages.setdefault(message.id, message)

    def has(self, message: Message) -> bool:
        return message.id in self._messages

    def all(self, channel: str | None = None) -> list[Message]:
        return [one for one in self._messages.values() if channel in {None, one.channel}]


class MailChannel(Channel):
    """Replaces a channel, keeping its limits and retries. The channel itself is opened and called only if `real`."""

    def __init__(
        self,
        channel: Channel,
        mail: Mail,
        *,
        real: bool,
        is_dead: Callable[[], bool],
        who_is_asked: Callable[[], Ask | None],
    ) -> None:
        self._channel = channel
        self._mail = mail
        self._real = real
        self._is_dead = is_dead
        self._who_is_asked = who_is_asked
        self.timeout, self.attempts, self.backoff = channel.timeout, channel.attempts, channel.backoff
        self.repeats, self.settle, self.on_doubt = channel.repeats, channel.settle, channel.on_doubt

    @property
    def most(self) -> int:  # type: ignore[override]  # changes with the fakes
        """A fake is called once per try of a message, so messages come one at a time then."""
        return self._channel.most if self._who_is_asked() is None else 1

    async def open(self, around: Surroundings) -> None:
        if self._real:
            await call(self._channel.open, (around,), {}, what="its open")

    async def close(self) -> None:
        if self._real:
            await call(self._channel.close, (), {}, what="its close")

    async def deliver(self, messages: Sequence[Message]) -> Sequence[Sent | None] | None:
        if self._is_dead():
            await asyncio.get_running_loop().create_future()  # its process is dead: it sends nothing more
        ask = self._who_is_asked()
        if ask is not None:
            for message in messages:
                await ask(message)
        answered = None
        if self._real:
            answered = await call(self._channel.deliver, (messages,), {}, what="its deliver")
        self._mail.add(messages)
        return answered

    async def find(self, message: Message) -> Sent | None:
        if self._real:
            found: Sent | None = await call(self._channel.find, (message,), {}, what="its find")
            return found
        return Sent() if self._mail.has(message) else None

    def describe(self) -> dict[str, Any]:
        return self._channel.describe()
