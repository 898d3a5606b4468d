"""The contract for everything that is read from outside: a source, its reader, and the batches that a reader returns.

    trigger ──(declares)──► reader ──read──► Batch ──► one transaction: events, cursor, items ──► acknowledge
                               ▲                                                                      │
                               └──────────── open(cursor): continues after the last commit ◄──────────┘

A trigger is a value that an agent declares. When the app runs, one reader is created for it (or for several that share one). A
reader knows only the outside: it neither stores nor retries. Input that it was not told to acknowledge must be returned again
after `open`, with the same identity. With the single transaction, this loses nothing and duplicates nothing; see reading.py.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, runtime_checkable

from wakeful.clock import Clock, Microseconds
from wakeful.errors import WakefulError
from wakeful.model import Event
from wakeful.stores.transaction import Fetcher
from wakeful.stores.verbs.take_in import Item, QuarantineKind, items_of
from wakeful.triggers.base import Trigger


class SourceTrouble(WakefulError):
    """A source cannot be read: the cause and the remedy, in one line. Reading is retried; the rest of the app keeps running."""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Input that cannot become an event: kept as received, with the reason, until a person has looked at it."""

    raw: bytes
    reason: str
    headers: Mapping[str, str] = field(default_factory=dict)
    kind: QuarantineKind = "unreadable"
    size: int | None = None  # None: the size of `raw`; 0: `raw` is only a name


@dataclass(slots=True)
class Batch:
    """What a reader returns from one read. It is stored completely or not at all."""

    events: list[Event] = field(default_factory=list)
    cursor: str | None = None  # where to continue after this batch; None: unchanged
    items: list[Item] = field(default_factory=list)  # what to remember about single things from now on
    unreadable: list[Unreadable] = field(default_factory=list)
    recovered: list[bytes] = field(
        default_factory=list
    )  # inputs that need no person any more, if they are in quarantine
    lag: Microseconds | None = None  # age of the last event in it
    behind: int | None = None  # number of inputs known to wait after it
    receipt: Any = None  # the reader's own data for `acknowledge`

    @property
    def empty(self) -> bool:
        return not (self.events or self.items or self.unreadable or self.recovered or self.cursor is not None)


class SourceMemory(Protocol):
    """Gives a reader the items that its source has seen."""

    async def items_of(self, app: str, source: str) -> list[Item]: ...


@dataclass(frozen=True, slots=True)
class SeenItems:
    """The items of sources in a store."""

    database: Fetcher

    async def items_of(self, app: str, source: str) -> list[Item]:
        return await items_of(self.database, app, source)


@dataclass(frozen=True, slots=True)
class Context:
    """The app, host, clock and store access that a reader gets."""

    app: str
    host: str
    clock: Clock
    memory: SourceMemory


class Reader(ABC):
    """Reads one source. If `single`, one process at a time reads it, under a lease."""

    kind: ClassVar[str]
    single: ClassVar[bool] = True
    recovers: ClassVar[bool] = False  # its batches list `recovered` inputs

    def __init__(self, name: str) -> None:
        self.name = name  # unique in the app and stable across restarts: cursor and items are stored under it

    @abstractmethod
    async def open(self, cursor: str | None) -> None:
        """Connect and continue after the cursor; None: it was never read. Raises SourceTrouble with cause and remedy."""

    @abstractmethod
    async def read(self, within: float) -> Batch | None:
        """The next batch as soon as there is one; None if nothing came within that many seconds. It is cancelled only to close
        the reader. The order of the events is kept.
        """

    async def acknowledge(self, batch: Batch) -> None:  # noqa: B027 many sources need no acknowledgement
        """The batch is stored: the other side may forget it."""

    @abstractmethod
    async def close(self) -> None:
        """Release all resources, if any. The reader may be opened again."""

    async def let_go(self) -> None:  # noqa: B027 few sources are waited for by the other side
        """The store is unavailable, so nothing can be acknowledged for now. Release what the other side waits for, such as a
        connection that would delay its shutdown. No batch that `read` returned is lost: it is stored once the store is back,
        and only then `read` is called again and reconnects.
        """

    @property
    def busy(self) -> bool:
        """Whether `read` will return something that is already on its way, without further input from outside. `wakeful once`
        waits for that.
        """
        return False

    @property
    def concern(self) -> str | None:
        """A problem that does not prevent reading, with the remedy. It raises an alarm of its own as long as it is returned."""
        return None

    def refusals(self, raw: bytes) -> list[Unreadable]:  # noqa: ARG002 for readers that recover inputs
        """The forms in which these bytes may be in quarantine."""
        return []

    def read_again(self, raw: bytes, headers: Mapping[str, str]) -> list[Event]:  # noqa: ARG002 for readers that support it
        """The events of input that was unreadable before, after a fix. Raises if it is still unreadable."""
        message = f"{self.kind} {self.name}: input in quarantine cannot be read again; ask the sender to send it again"
        raise SourceTrouble(message)


@runtime_checkable
class ReadTrigger(Trigger, Protocol):
    """A trigger whose events must be fetched. Triggers with equal `shared` are read by one reader."""

    @property
    def shared(self) -> tuple[object, ...]: ...

    def reader(self, triggers: Sequence[Any], context: Context) -> Reader:
        """The reader for all triggers that share it; `self` is the first of them."""
        ...

    async def problems(self) -> list[str]:
        """Problems found by asking the outside, for `wakeful check`. One line each, with the remedy."""
        ...
