"""`bucket("s3://name/inbox/*.csv")`: wakes an agent for objects that are written to a bucket or removed from it.

Without `queue=` the bucket is listed regularly (listing.py); with it, its notifications are read from that queue (queue.py).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from wakeful.cel import Condition, Match, compile_condition
from wakeful.clock import SECOND, Duration, Microseconds, duration, written
from wakeful.connect.s3.aws import Access
from wakeful.connect.s3.listing import ListingReader, problems_of_bucket
from wakeful.connect.s3.objects import OBJECT_OPERATIONS, KeyPattern, ObjectChange, ObjectOperation
from wakeful.connect.s3.queue import NotificationReader
from wakeful.connect.s3.sqs import QueueAddress, problems_of_queue, read_queue_address
from wakeful.errors import ConfigError, did_you_mean
from wakeful.model import Event, digest
from wakeful.secrets import Secret
from wakeful.triggers.mapping import Mapping, apply_mapping, name_of_mapping, read_mapping
from wakeful.triggers.options import refuse_unknown_options
from wakeful.triggers.source import Context, Reader

_ADDRESS = re.compile(r"s3://([A-Za-z0-9][A-Za-z0-9._-]{1,254})(?:/(.*))?", re.DOTALL).fullmatch


@dataclass(frozen=True, slots=True)
class Bucket:
    """Objects of a bucket, and a condition on their changes."""

    url: str
    bucket: str
    pattern: KeyPattern
    operations: tuple[ObjectOperation, ...]
    every: Microseconds
    access: Access
    queue: QueueAddress | None = None
    condition: str | None = None
    data: Mapping | None = None
    _means: Callable[[str], Any] = field(init=False, repr=False, compare=False)
    _condition: Condition | None = field(init=False, repr=False, compare=False)
    _mapping: Callable[[Event], Any] | None = field(init=False, repr=False, compare=False)

    carries_data: ClassVar[bool] = True

    def __post_init__(self) -> None:
        shown = f'bucket("{self.url}")'
        condition = None if self.condition is None else compile_condition(self.condition, where=shown)
        object.__setattr__(self, "_means", self.pattern.compiled().fullmatch)
        object.__setattr__(self, "_condition", condition)
        object.__setattr__(self, "_mapping", read_mapping(self.data, where=shown))

    @property
    def name(self) -> str:
        """The name of the bucket as a source."""
        return f"s3://{self.bucket}"

    @property
    def type(self) -> str:
        return f"object.{self.operations[0]}" if len(self.operations) == 1 else "object.*"

    @property
    def source(self) -> str:
        """The source of its events. Triggers that want the same form share events; others have events of their own."""
        return self.name if self.data is None else f"{self.name}#{digest(name_of_mapping(self.data), size=4)}"

    @property
    def where(self) -> str | None:
        """The type alone decides only if every object and every operation is wanted."""
        if self.condition is not None or (self.pattern.written == "" and self.operations == OBJECT_OPERATIONS):
            return self.condition
        return self.describe()

    def means(self, key: str) -> bool:
        return self._means(key) is not None

    def takes(self, change: ObjectChange) -> bool:
        return change.bucket == self.bucket and change.operation in self.operations and self.means(change.key)

    def event(self, change: ObjectChange) -> Event:
        """The event of a change, in the wanted form. Raises InvalidEvent if it cannot be made."""
        event = change.event(self.source)
        apply_mapping(self._mapping, event)
        return event

    def matches(self, event: Event) -> Match:
        operation = event.type.removeprefix("object.")
        if operation not in self.operations:
            return Match(matched=False, reason=f"{operation} is not one of {', '.join(self.operations)}")
        if not self.means(event.subject or ""):
            return Match(matched=False, reason=f'key "{event.subject}" does not match "{self.url}"')
        if self._condition is None:
            return Match(matched=True, reason=self.describe())
        return self._condition.matches(event)

    def describe(self) -> str:
        parts = [f'"{self.url}"']
        parts.append(f'every="{written(self.every)}"' if self.queue is None else f'queue="{self.queue.shown}"')
        if self.operations != OBJECT_OPERATIONS:
            parts.append(f"operations={list(self.operations)}")
        if self.condition is not None:
            parts.append(f'where="{self.condition}"')
        return f"bucket({', '.join(parts)})"

    @property
    def shared(self) -> tuple[object, ...]:
        if self.queue is not None:
            return ("bucket", self.queue)
        return ("bucket", self.bucket, self.access)

    def reader(self, triggers: Sequence[Any], context: Context) -> Reader:
        if self.queue is not None:
            return NotificationReader(self.queue, triggers, context)
        return ListingReader(self.name, triggers, context)

    async def problems(self) -> list[str]:
        return await (problems_of_bucket(self) if self.queue is None else problems_of_queue(self.queue))


@refuse_unknown_options
def bucket(
    url: str,
    *,
    queue: str | None = None,
    every: Duration = "1m",
    operations: str | Sequence[str] | None = None,
    endpoint: str | None = None,
    region: str | None = None,
    access_key: Secret | None = None,
    secret_key: Secret | None = None,
    where: str | None = None,
    data: Mapping | None = None,
) -> Bucket:
    """Wake for objects of a bucket: `s3://name/inbox/*.csv`. `*` and `?` do not match a slash, `**` does.

    The bucket is listed every minute, or as `every` says; with `queue` its notifications are read instead. `operations`: a
    selection of "created", "changed" and "deleted". `endpoint`: the address of a server other than Amazon's.
    """
    shown = f"bucket({url!r})"
    found = _ADDRESS(url) if isinstance(url, str) else None
    if found is None or "\0" in url:
        message = f'{shown}: write "s3://NAME", "s3://NAME/folder/" for all beneath, or a pattern like "s3://NAME/inbox/*.csv"'
        raise ConfigError(message)
    try:
        often = duration(every)
    except (TypeError, ValueError) as error:
        message = f"{shown}: every: {error}"
        raise ConfigError(message) from None
    if often < SECOND:
        message = f'{shown}: every must be at least a second, like "1m", not {every!r}'
        raise ConfigError(message)
    access = Access(region, endpoint, access_key, secret_key)
    access.check(shown)
    address = None if queue is None else read_queue_address(queue, access, where=shown)
    meant = _read_operations(operations, where=shown)
    if address is not None and "changed" in meant and "created" not in meant:
        message = (
            f'{shown}: operations: a notification does not say whether the object existed before: use "created", '
            "which means both with queue="
        )
        raise ConfigError(message)
    return Bucket(url, found[1], KeyPattern(found[2] or ""), meant, often, access, address, where, data)


def _read_operations(given: str | Sequence[str] | None, *, where: str) -> tuple[ObjectOperation, ...]:
    named = OBJECT_OPERATIONS if given is None else (given,) if isinstance(given, str) else tuple(given)
    for one in named:
        if one not in OBJECT_OPERATIONS:
            message = f'{where}: operations: unknown operation "{one}".{did_you_mean(str(one), OBJECT_OPERATIONS)}'
            raise ConfigError(message)
    if not named:
        message = f'{where}: operations is empty: name "created", "changed" or "deleted", or leave it out for all'
        raise ConfigError(message)
    return tuple(one for one in OBJECT_OPERATIONS if one in named)
