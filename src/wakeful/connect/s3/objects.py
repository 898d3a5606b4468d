"""One change of one object, from a listing or a notification, and the event that it becomes.

type      object.created · object.changed · object.deleted
source    s3://BUCKET, with a suffix for the form if `data=` is given
id        key@version (listing: it rises with every change, also after a deletion), or the identity in the notification
subject   the key
data      {"bucket", "key", "change", "version", "version_id", "size", "etag", "modified", "sequencer"}
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal, get_args

from wakeful.clock import Microseconds, to_datetime, to_text
from wakeful.model import Event, digest

ObjectOperation = Literal["created", "changed", "deleted"]
OBJECT_OPERATIONS: tuple[ObjectOperation, ...] = get_args(ObjectOperation)
LONGEST_IDENTITY = 1_000

_WILDCARD = re.compile(r"\*\*/|\*\*|\*|\?")
_MEANING = {"**/": r"(?:.*/)?", "**": r".*", "*": r"[^/]*", "?": r"[^/]"}


@dataclass(slots=True)
class ObjectChange:
    """An object that was written or removed. None means unknown."""

    bucket: str
    key: str
    operation: ObjectOperation
    identity: str  # unique among all changes of the key
    version: int | None = None  # ours: see listing.py
    version_id: str | None = None  # the bucket's own, if it keeps versions
    size: int | None = None
    etag: str | None = None
    modified: Microseconds | None = None
    sequencer: str | None = None
    told_at: Microseconds | None = None

    def data(self) -> dict[str, Any]:
        return {
            "bucket": self.bucket,
            "key": self.key,
            "change": self.operation,
            "version": self.version,
            "version_id": self.version_id,
            "size": self.size,
            "etag": self.etag,
            "modified": to_text(self.modified),
            "sequencer": self.sequencer,
        }

    def event(self, source: str) -> Event:
        moment = self.modified if self.modified is not None else self.told_at
        return Event(
            source,
            identity_of(self.key, self.identity),
            f"object.{self.operation}",
            self.data(),
            subject=self.key,
            time=None if moment is None else to_datetime(moment),
        )


def identity_of(key: str, mark: str) -> str:
    """Key and mark; readable if they are short enough."""
    written = f"{key}@{mark}"
    return written if len(written) <= LONGEST_IDENTITY else f"{key[:800]}…{digest(key)}@{digest(mark)}"


@dataclass(frozen=True, slots=True)
class KeyPattern:
    """Matching keys: `*` and `?` do not match a slash, `**` does. A pattern that ends with a slash matches everything below."""

    written: str

    @property
    def all_below(self) -> bool:
        return not self.written or self.written.endswith("/")

    @property
    def prefix(self) -> str:
        """The prefix of every matching key."""
        first = _WILDCARD.search(self.written)
        return self.written if first is None else self.written[: first.start()]

    def compiled(self) -> re.Pattern[str]:
        written = self.written + "**" if self.all_below else self.written
        parts, at = [], 0
        for found in _WILDCARD.finditer(written):
            parts += [re.escape(written[at : found.start()]), _MEANING[found[0]]]
            at = found.end()
        return re.compile("".join([*parts, re.escape(written[at:])]), re.DOTALL)
