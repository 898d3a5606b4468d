"""A queue of Amazon SQS, or of a compatible server, and its reader.

    receive ──► messages, hidden from other readers for a while ──► stored ──► deleted
                     │  while they wait for the store, hiding is extended
                     └─ the process died: they come again, with the same identity

Any number of processes may read one queue: the queue gives each message to one of them at a time.

    sqs://eu-west-1/orders                                      region and name
    https://sqs.eu-west-1.amazonaws.com/123456789012/orders     the queue's own address
    http://127.0.0.1:9324/000000000000/orders                   of another server, which is used as the endpoint
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import re
import time
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar
from urllib.parse import urlsplit

from wakeful.clock import Clock, Microseconds
from wakeful.connect.s3.aws import Access, client, in_words
from wakeful.errors import ConfigError, InvalidEvent
from wakeful.model import Event
from wakeful.triggers.source import Batch, Reader, SourceTrouble, Unreadable

AT_ONCE = 10  # messages in one request, the limit of the service
REQUESTS = 10  # at most, for one batch
LONGEST_WAIT = 20  # seconds, the longest wait that the service permits
SHORTEST_WAIT = 1  # without waiting, the service may miss messages
USUAL_VISIBILITY = 30
COUNT_EVERY = 15.0
NEEDS = "sqs:ReceiveMessage, sqs:DeleteMessage, sqs:ChangeMessageVisibility, sqs:GetQueueUrl and sqs:GetQueueAttributes"

_AMAZON = re.compile(r"(?:sqs\.([a-z0-9-]+)|([a-z0-9-]+)\.queue|queue)\.amazonaws\.com(?:\.cn)?")
_NAME = re.compile(r"[A-Za-z0-9_-]{1,80}|[A-Za-z0-9_-]{1,75}\.fifo").fullmatch


@dataclass(frozen=True, slots=True)
class QueueAddress:
    """Where a queue is: by region and name, or by its own address."""

    written: str
    access: Access
    name: str | None = None

    @property
    def shown(self) -> str:
        return self.written


def read_queue_address(written: Any, access: Access, *, where: str) -> QueueAddress:
    """Read a `queue=`; raises ConfigError. Region and server in the address take precedence over `access`."""
    parts = urlsplit(written) if isinstance(written, str) else urlsplit("")
    host, names = parts.hostname or "", [one for one in parts.path.split("/") if one]
    if parts.scheme == "sqs" and host and len(names) == 1 and _NAME(names[0]) and not parts.query:
        return QueueAddress(written, replace(access, region=host), names[0])
    if parts.scheme in {"http", "https"} and host and names and "@" not in parts.netloc and _NAME(names[-1]):
        amazon = _AMAZON.fullmatch(host)
        if amazon is not None:
            return QueueAddress(written, replace(access, region=amazon[1] or amazon[2] or access.region))
        return QueueAddress(written, replace(access, endpoint=f"{parts.scheme}://{parts.netloc}"))
    message = (
        f'{where}: a queue is "sqs://REGION/NAME", like "sqs://eu-west-1/orders", or the URL that the service gives it, '
        f"not {written!r}"
    )
    raise ConfigError(message)


@dataclass(frozen=True, slots=True)
class SqsMessage:
    """One message, with the receipt to return or delete it."""

    id: str
    body: str
    receipt: str
    attributes: Mapping[str, str] = field(default_factory=dict)
    sent_at: Microseconds | None = None


class SqsQueue:
    """One queue, as read by one process."""

    def __init__(self, address: QueueAddress) -> None:
        self.address = address
        self._where = f"queue {address.shown}"
        self._stack = contextlib.AsyncExitStack()
        self._client: Any = None
        self._url = ""
        self._visibility = USUAL_VISIBILITY
        self._asks_for: dict[str, int] = {}
        self._held: dict[str, SqsMessage] = {}  # by receipt: received but not deleted yet
        self._keeper: asyncio.Task[None] | None = None
        self._count: int | None = None
        self._counted_at = 0.0

    async def open(self) -> None:
        self._stack = contextlib.AsyncExitStack()
        try:
            with in_words(self._where, NEEDS):
                self._client = await self._stack.enter_async_context(
                    client("sqs", self.address.access, where=self._where)
                )
                self._url = self.address.written
                if self.address.name is not None:
                    found = await self._client.get_queue_url(QueueName=self.address.name)
                    self._url = found["QueueUrl"]
                attributes = await self._attributes()
        except BaseException:
            await self.close()
            raise
        self._visibility = int(attributes.get("VisibilityTimeout", USUAL_VISIBILITY))
        # A queue with a visibility timeout of 0 would return the same message over and over.
        self._asks_for = {} if self._visibility else {"VisibilityTimeout": USUAL_VISIBILITY}
        self._visibility = self._visibility or USUAL_VISIBILITY
        self._keeper = asyncio.create_task(self._keep())

    async def receive(self, within: float) -> list[SqsMessage]:
        """Messages as soon as there are some, up to a limit; none if nothing came within that time."""
        wait = max(SHORTEST_WAIT, min(LONGEST_WAIT, math.ceil(within)))
        with in_words(self._where, NEEDS):
            messages = await self._receive(wait)
            if len(messages) == AT_ONCE:
                more = await asyncio.gather(*(self._receive(0) for _ in range(REQUESTS - 1)))
                messages += [message for some in more for message in some]
        return messages

    async def delete(self, messages: Sequence[SqsMessage]) -> None:
        """Delete stored messages. One that cannot be deleted comes again and is a duplicate then."""

        async def delete(entries: list[SqsMessage]) -> None:
            await self._client.delete_message_batch(
                QueueUrl=self._url,
                Entries=[{"Id": str(number), "ReceiptHandle": one.receipt} for number, one in enumerate(entries)],
            )

        for one in messages:
            self._held.pop(one.receipt, None)
        with in_words(self._where, NEEDS):
            await _in_tens(messages, delete)

    async def waiting(self) -> int | None:
        """About how many messages wait; refreshed from time to time."""
        now = time.monotonic()
        if self._count is None or now - self._counted_at > COUNT_EVERY:
            with in_words(self._where, NEEDS):
                told = (await self._attributes()).get("ApproximateNumberOfMessages")
            self._count, self._counted_at = None if told is None else int(told), now
        return self._count

    async def close(self) -> None:
        """Close, and return messages that were not stored, so that another process gets them at once."""
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.wait([self._keeper])
            self._keeper = None
        held, self._held = list(self._held.values()), {}
        if held:
            with contextlib.suppress(Exception):  # then they become visible later by themselves
                await self._hide(held, 0)
        self._client = None
        await self._stack.aclose()

    async def _attributes(self) -> dict[str, str]:
        """The attributes of the queue; empty without the permission to read them, which is optional."""
        from botocore.exceptions import ClientError

        try:
            answer = await self._client.get_queue_attributes(
                QueueUrl=self._url, AttributeNames=["VisibilityTimeout", "ApproximateNumberOfMessages"]
            )
        except ClientError as error:
            if "AccessDenied" in str(error.response.get("Error", {}).get("Code", "")):
                return {}
            raise
        found: dict[str, str] = answer.get("Attributes", {})
        return found

    async def _receive(self, wait: int) -> list[SqsMessage]:
        answer = await self._client.receive_message(
            QueueUrl=self._url,
            MaxNumberOfMessages=AT_ONCE,
            WaitTimeSeconds=wait,
            MessageAttributeNames=["All"],
            AttributeNames=["SentTimestamp"],
            **self._asks_for,
        )
        messages = [_read_message(one) for one in answer.get("Messages", ())]
        self._held |= {message.receipt: message for message in messages}
        return messages

    async def _keep(self) -> None:
        """Keep messages hidden that wait to be stored: the store may be unavailable for longer than the queue hides them."""
        while True:
            await asyncio.sleep(self._visibility / 3)
            with contextlib.suppress(Exception):  # then they come again as duplicates
                await self._hide(list(self._held.values()), self._visibility)

    async def _hide(self, messages: Sequence[SqsMessage], span: int) -> None:
        async def hide(entries: list[SqsMessage]) -> None:
            await self._client.change_message_visibility_batch(
                QueueUrl=self._url,
                Entries=[
                    {"Id": str(number), "ReceiptHandle": one.receipt, "VisibilityTimeout": span}
                    for number, one in enumerate(entries)
                ],
            )

        await _in_tens(messages, hide)


class QueueReader(Reader):
    """Reads a queue. Subclasses parse the messages."""

    single: ClassVar[bool] = False

    def __init__(self, name: str, address: QueueAddress, clock: Clock) -> None:
        super().__init__(name)
        self._queue = SqsQueue(address)
        self._clock = clock
        self._more = False

    @abstractmethod
    def events_of(self, raw: bytes, headers: Mapping[str, str]) -> tuple[list[Event], list[str]]:
        """The events of a message, and errors of parts of it. Raises InvalidEvent if all of it is unreadable."""

    async def open(self, cursor: str | None) -> None:  # noqa: ARG002 the queue itself is the cursor
        await self._queue.open()

    async def read(self, within: float) -> Batch | None:
        messages = await self._queue.receive(within)
        self._more = bool(messages)
        if not messages:
            return None
        batch = Batch(receipt=messages, behind=await self._queue.waiting())
        for message in messages:
            raw = message.body.encode()
            headers = {**message.attributes, "sqs-message-id": message.id}
            try:
                events, wrong = self.events_of(raw, headers)
            except InvalidEvent as error:
                events, wrong = [], [str(error)]
            batch.events += events
            if wrong:
                batch.unreadable.append(Unreadable(raw, f"{self.name}: {'; '.join(wrong)}", headers))
        sent = [one.sent_at for one in messages if one.sent_at is not None]
        if sent:
            batch.lag = max(0, self._clock.now() - min(sent))
        return batch

    async def acknowledge(self, batch: Batch) -> None:
        await self._queue.delete(batch.receipt)

    async def close(self) -> None:
        await self._queue.close()

    @property
    def busy(self) -> bool:
        return self._more

    def read_again(self, raw: bytes, headers: Mapping[str, str]) -> list[Event]:
        events, wrong = self.events_of(raw, headers)
        if wrong:
            raise InvalidEvent("; ".join(wrong))
        return events


async def problems_of_queue(address: QueueAddress) -> list[str]:
    """For `wakeful check`: whether the queue can be reached and exists."""
    queue = SqsQueue(address)
    try:
        await queue.open()
    except (SourceTrouble, ConfigError) as error:
        return [str(error)]
    else:
        return []
    finally:
        await queue.close()


async def _in_tens(messages: Sequence[SqsMessage], ask: Callable[[list[SqsMessage]], Awaitable[None]]) -> None:
    await asyncio.gather(*(ask(list(messages[at : at + AT_ONCE])) for at in range(0, len(messages), AT_ONCE)))


def _read_message(found: dict[str, Any]) -> SqsMessage:
    attributes = {
        name: value["StringValue"]
        for name, value in found.get("MessageAttributes", {}).items()
        if isinstance(value.get("StringValue"), str)
    }
    sent = found.get("Attributes", {}).get("SentTimestamp")
    return SqsMessage(
        found["MessageId"],
        found["Body"],
        found["ReceiptHandle"],
        attributes,
        None if sent is None else int(sent) * 1000,
    )
