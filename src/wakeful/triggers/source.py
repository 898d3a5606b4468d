"""The one contract of everything that is read from outside: a source, its reader, and what a reader brings.

    trigger ──(declares)──► reader ──read──► Batch ──► one transaction: events, cursor, items ──► acknowledge
                               ▲                                                                      │
                               └──────────── open(cursor): goes on where the last commit stood ◄──────┘

A trigger is a value that an agent takes. A reader is made of it (or of several that share one) when the app runs, and knows only
the outside: it neither stores nor retries. Whatever it has not been told to acknowledge it must bring again after `open`, under
the same identity. Losing nothing and doubling nothing follows from that and from the one transaction; see reading.py.
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
    """A source cannot be read: what is wrong and what to do, in one line. It is tried again; the rest of the app runs on."""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Something that came and cannot be taken in: kept as it is, with the reason, until a person has looked."""

    raw: bytes
    reason: str
    headers: Mapping[str, str] = field(default_factory=dict)
    kind: QuarantineKind = "unreadable"
    size: int | None = None  # None: that of the bytes; 0: the bytes are only a name


@dataclass(slots=True)
class Batch:
    """What a reader brings at once: it is stored whole, or not at all."""

    events: list[Event] = field(default_factory=list)
    cursor: str | None = None  # where to go on after this; None: as before
    items: list[Item] = field(default_factory=list)  # what is to be known of single things from now on
    unreadable: list[Unreadable] = field(default_factory=list)
    recovered: list[bytes] = field(
        default_factory=list
    )  # bytes that no person need look at any more, if they are in quarantine
    lag: Microseconds | None = None  # how old the last of it is
    behind: int | None = None  # how much is known to wait after it
    receipt: Any = None  # the reader's own, for `acknowledge`

    @property
    def empty(self) -> bool:
        return not (self.events or self.items or self.unreadable or self.recovered or self.cursor is not None)


class Memory(Protocol):
    """The items that a source has seen, as its reader asks for them."""

    async def items_of(self, app: str, source: str) -> list[Item]: ...


@dataclass(frozen=True, slots=True)
class SeenItems:
    """The memory of a source in a store."""

    database: Fetcher

    async def items_of(self, app: str, source: str) -> list[Item]:
        return await items_of(self.database, app, source)


@dataclass(frozen=True, slots=True)
class Context:
    """Where a reader is."""

    app: str
    host: str
    clock: Clock
    memory: Memory


class Reader(ABC):
    """Reads one source. One process at a time if `single`, which then holds the source under a lease."""

    kind: ClassVar[str]
    single: ClassVar[bool] = True
    recovers: ClassVar[bool] = False  # its batches say what is `recovered`

    def __init__(self, name: str) -> None:
        self.name = name  # unique in the app, and the same after a restart: cursor and items are kept under it

    @abstractmethod
    async def open(self, cursor: str | None) -> None:
        """Connect, and go on behind the cursor; None: it was never read. SourceTrouble says what is in the way."""

    @abstractmethod
    async def read(self, within: float) -> Batch | None:
        """The next batch, as soon as there is one; None when nothing came in so many seconds. Never cancelled in between but to
        be closed. An order among the events is kept.
        """

    async def acknowledge(self, batch: Batch) -> None:  # noqa: B027 many sources have nobody to tell
        """It is stored: the other side may forget it."""

    @abstractmethod
    async def close(self) -> None:
        """Let go of everything, if there is anything. It may be opened again."""

    async def let_go(self) -> None:  # noqa: B027 few sources have somebody who waits for them
        """The store is unavailable, so nothing can be acknowledged for now. Free what the other side waits for, such as a
        connection that would hold up its shutdown. No batch that `read` handed over is lost by this: it is stored once the
        store is back, and only then `read` is called again and connects anew.
        """

    @property
    def busy(self) -> bool:
        """Is there something on its way that `read` will bring without anything more happening outside? `wakeful once` waits
        for that.
        """
        return False

    @property
    def concern(self) -> str | None:
        """What is not well, with the remedy, though it can be read: an alarm of its own for as long as it is so."""
        return None

    def refusals(self, raw: bytes) -> list[Unreadable]:  # noqa: ARG002 for readers that recover inputs
        """As what these bytes may stand in quarantine."""
        return []

    def read_again(self, raw: bytes, headers: Mapping[str, str]) -> list[Event]:  # noqa: ARG002 for those that can
        """The events of something that was unreadable before, after a fix. Raises what is still wrong with it."""
        message = f"{self.kind} {self.name}: what is in quarantine cannot be read again: let the sender send it anew"
        raise SourceTrouble(message)


@runtime_checkable
class ReadTrigger(Trigger, Protocol):
    """A trigger whose events must be fetched. Those with equal `shared` are read by one reader."""

    @property
    def shared(self) -> tuple[object, ...]: ...

    def reader(self, triggers: Sequence[Any], context: Context) -> Reader:
        """The reader for all triggers that share it; this is the first of them."""
        ...

    async def problems(self) -> list[str]:
        """What is in the way, asked of the outside: for `wakeful check`. Each one line, with the remedy."""
        ...
