"""Reads a bucket by listing it: from time to time all objects are listed and compared with the last state.

    page by page ──► new, or with another mark: an event, and the item with the next version
         │                (each page with changes is stored with its last key: after a crash, listing continues there)
         └─ end of a listing that began at the top ──► known objects that were not seen: deleted

Only a complete listing reports deletions: one that was continued in the middle is followed by a new one. The mark of an object is
its ETag, size and time, so writing the same content again is a change, as it is for S3 itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic_core import from_json, to_json

from wakeful.clock import Microseconds, from_datetime, seconds
from wakeful.connect.s3.aws import client, in_words
from wakeful.connect.s3.objects import ObjectChange, ObjectOperation
from wakeful.errors import ConfigError, InvalidEvent
from wakeful.model import Event
from wakeful.stores.verbs.take_in import Item
from wakeful.triggers.source import Batch, Context, Reader, SourceTrouble, Unreadable

if TYPE_CHECKING:
    from wakeful.connect.s3.trigger import Bucket

PAGE = 1_000
NEEDS = "s3:ListBucket"


@dataclass(slots=True)
class Listing:
    """One pass over a bucket."""

    whole: bool  # it began at the top
    after: str = ""
    token: str | None = None


class ListingReader(Reader):
    """Lists one bucket for all triggers on it."""

    kind = "bucket"
    single: ClassVar[bool] = True

    def __init__(self, name: str, triggers: Sequence[Bucket], context: Context) -> None:
        super().__init__(name)
        self._triggers = triggers
        self._context = context
        self._bucket = triggers[0].bucket
        self._access = triggers[0].access
        self._where = f"bucket {name}"
        self._every: Microseconds = min(one.every for one in triggers)
        self._prefix = common_prefix([one.pattern.prefix for one in triggers])
        self._stack = contextlib.AsyncExitStack()
        self._client: Any = None
        self._known: dict[str, Item] = {}
        self._seen: set[str] = set()
        self._listing: Listing | None = None
        self._gone: list[str] | None = None  # deletions left to report at the end of a listing
        self._stored = ""  # the cursor
        self._due_at: Microseconds = 0
        self._unfit: set[str] = set()

    async def open(self, cursor: str | None) -> None:
        self._stack = contextlib.AsyncExitStack()
        with in_words(self._where, NEEDS):
            self._client = await self._stack.enter_async_context(client("s3", self._access, where=self._where))
        items = await self._context.memory.items_of(self._context.app, self.name)
        self._known = {one.item: one for one in items}
        self._stored = cursor or ""
        self._unfit = set()
        self._begin(self._stored)

    async def read(self, within: float) -> Batch | None:
        if self._listing is None:
            if within and not await self._is_due(within):
                return None
            self._begin()
        until = time.monotonic() + within
        while self._listing is not None:
            batch = await self._page(self._listing) if self._gone is None else self._deletions(self._gone)
            if not batch.empty:
                self._stored = self._stored if batch.cursor is None else batch.cursor
                return batch
            if (
                time.monotonic() >= until
            ):  # a large bucket takes longer: return, so that the caller sees that reading works
                return None
        return None

    async def close(self) -> None:
        self._client = self._listing = self._gone = None
        await self._stack.aclose()

    @property
    def busy(self) -> bool:
        return self._listing is not None

    def read_again(self, raw: bytes, headers: Mapping[str, str]) -> list[Event]:  # noqa: ARG002 the contract's
        told = from_json(raw)
        if not isinstance(told, dict) or set(told) != set(ObjectChange.__dataclass_fields__):
            message = f"{self._where}: its key still cannot be stored: rename the object"
            raise SourceTrouble(message)
        change = ObjectChange(**told)
        return [trigger.event(change) for trigger in self._forms(change)]

    def _begin(self, after: str = "") -> None:
        self._listing = Listing(whole=not after, after=after)
        self._seen, self._gone = set(), None

    async def _is_due(self, within: float) -> bool:
        left = self._due_at - self._context.clock.now()
        if left > 0:
            await asyncio.sleep(min(within, seconds(left)))
        return self._context.clock.now() >= self._due_at

    async def _page(self, listing: Listing) -> Batch:
        place = {"ContinuationToken": listing.token} if listing.token else {"StartAfter": listing.after}
        with in_words(self._where, NEEDS):
            page = await self._client.list_objects_v2(
                Bucket=self._bucket, Prefix=self._prefix, MaxKeys=PAGE, **{name: at for name, at in place.items() if at}
            )
        batch = Batch()
        for entry in page.get("Contents", ()):
            self._look(entry, batch)
            listing.after = entry["Key"]
        listing.token = page.get("NextContinuationToken")
        if not (page.get("IsTruncated") and listing.token):
            self._gone = self._missed() if listing.whole else []
        elif batch.items:
            batch.cursor = listing.after
        return batch

    def _look(self, entry: Mapping[str, Any], batch: Batch) -> None:
        key: str = entry["Key"]
        if not any(one.means(key) for one in self._triggers):
            return
        if "\0" in key:
            if key not in self._unfit:
                self._unfit.add(key)
                batch.unreadable.append(
                    Unreadable(key.encode(), f"{self._where}: a key contains NUL: rename the object")
                )
            return
        self._seen.add(key)
        etag = str(entry.get("ETag", "")).strip('"')
        modified = from_datetime(entry["LastModified"])
        mark = f"{etag} {entry.get('Size')} {modified}"
        before = self._known.get(key)
        if before is not None and not before.gone and before.mark == mark:
            return
        self._note(
            batch,
            key,
            "changed" if before is not None and not before.gone else "created",
            mark,
            size=entry.get("Size"),
            etag=etag,
            modified=modified,
        )

    def _missed(self) -> list[str]:
        """Known objects that exist, still match, and were not seen."""
        return [
            key
            for key, item in self._known.items()
            if not item.gone and key not in self._seen and any(one.means(key) for one in self._triggers)
        ]

    def _deletions(self, gone: list[str]) -> Batch:
        """A batch of deletions; the last one ends the listing."""
        batch = Batch()
        for key in gone[:PAGE]:
            self._note(batch, key, "deleted", "")
        del gone[:PAGE]
        if gone:
            return batch
        if self._stored:
            batch.cursor = ""
        listing, self._listing, self._gone = self._listing, None, None
        if listing is not None and not listing.whole:
            self._begin()
        else:
            self._due_at = self._context.clock.now() + self._every
            self._seen = set()
        return batch

    def _note(self, batch: Batch, key: str, operation: ObjectOperation, mark: str, **facts: Any) -> None:
        before = self._known.get(key)
        version = 1 if before is None else before.version + 1
        item = self._known[key] = Item(key, version, mark, gone=operation == "deleted")
        batch.items.append(item)
        now = self._context.clock.now()
        change = ObjectChange(self._bucket, key, operation, str(version), version, told_at=now, **facts)
        if change.modified is not None:
            batch.lag = max(0, now - change.modified)
        for trigger in self._forms(change):
            try:
                batch.events.append(trigger.event(change))
            except InvalidEvent as error:
                told = {name: getattr(change, name) for name in ObjectChange.__dataclass_fields__}
                batch.unreadable.append(Unreadable(to_json(told), f"{self._where}: {key}: {error}"))

    def _forms(self, change: ObjectChange) -> list[Bucket]:
        return forms_of(self._triggers, change)


def forms_of(triggers: Sequence[Bucket], change: ObjectChange) -> list[Bucket]:
    """One trigger for each form in which triggers want the event."""
    return list({one.source: one for one in reversed(triggers) if one.takes(change)}.values())


def common_prefix(prefixes: Sequence[str]) -> str:
    first, last = min(prefixes), max(prefixes)
    length = next((at for at, (one, other) in enumerate(zip(first, last, strict=False)) if one != other), len(first))
    return first[:length]


async def problems_of_bucket(trigger: Bucket) -> list[str]:
    """For `wakeful check`: whether the bucket can be listed."""
    where = f"bucket {trigger.name}"
    try:
        with in_words(where, NEEDS):
            async with client("s3", trigger.access, where=where) as found:
                await found.list_objects_v2(Bucket=trigger.bucket, Prefix=trigger.pattern.prefix, MaxKeys=1)
    except (SourceTrouble, ConfigError) as error:
        return [str(error)]
    return []
