"""What a store can be asked about sources: one request per transition.

A source that only one process may read is held under a token, which rises with every holder. Events, the cursor and what the
source knows of its items are stored in one transaction that checks this token: so nothing is lost between them, and a reader
that was paused or cut off can store nothing any more.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from wakeful.clock import Microseconds
from wakeful.model import Arrival, Receipt, SourceState
from wakeful.stores.alarm import Alarm
from wakeful.stores.quarantine_room import ROOM_OF_ROWS
from wakeful.stores.request import Audit, ByPerson, Others, Request
from wakeful.stores.verbs.accept import AcceptEvents
from wakeful.stores.verbs.with_events import WithEvents

QuarantineKind = Literal["unverified", "unreadable"]
# What the bytes in quarantine are: as they came from outside, or an event that the source had read, as Wakeful wrote it down.
QuarantineForm = Literal["raw", "event"]


@dataclass(frozen=True, slots=True)
class Item:
    """One thing a source has seen, as it was seen last. `mark` is by what a change of it is told."""

    item: str
    version: int
    mark: str
    gone: bool = False


@dataclass(frozen=True, slots=True)
class Kept:
    """What could not be verified or read: its event, which is quarantined, and what came along with the bytes (JSON)."""

    arrival: Arrival
    kind: QuarantineKind
    headers: str | None = None
    size: int = 0  # of the bytes; 0 where they are only a name
    form: QuarantineForm = "raw"  # said by Wakeful alone: a release trusts it, so it never comes out of headers

    @property
    def room(self) -> int:
        """What it takes in the store, roughly: its event, what came along, and its rows."""
        return len(self.arrival.envelope) + len(self.headers or "") + ROOM_OF_ROWS


@dataclass(slots=True)
class EnterSources(Request[None]):
    """Make known which sources an app has: (name, kind) of each, and the agents that each of them wakes; who hears of it, and
    how far behind it may be, where that was declared; and which names in `source` its events have, which are its own then.
    """

    app: str
    sources: list[tuple[str, str]]
    agents: dict[str, list[str]] = field(default_factory=dict)
    owners: dict[str, str | None] = field(default_factory=dict)
    lag_within: dict[str, Microseconds | None] = field(default_factory=dict)
    brings: dict[str, list[str]] = field(default_factory=dict)


@dataclass(slots=True)
class ServeSources(Request[None]):
    """A process answers the requests to these webhooks, or with `ends` does so no more. What it says is known to be over when its
    lease is.
    """

    app: str
    names: list[str]
    process: str
    ends: bool = False

    fenced = True


@dataclass(frozen=True, slots=True)
class HeldSource:
    """A source as its reader holds it, and where to go on."""

    app: str
    name: str
    token: int
    cursor: str | None


@dataclass(slots=True)
class HoldSource(Request[HeldSource | None]):
    """Become the one reader of a source. None comes back while another process that is alive has it."""

    app: str
    name: str
    process: str

    fenced = True


@dataclass(slots=True)
class LetSourceGo(Request[None]):
    """Read it no more. Somebody else may at once. With `leaves` the others are told: this one does not come back to it, as it
    does after a failure.
    """

    app: str
    name: str
    process: str
    token: int
    leaves: bool = False

    fenced = True

    def tell(self, _: None, others: Others) -> None:
        if self.leaves:
            others.joined = self.app


# Who settles what a source could take in after all, and why: should it be refused once more, it is kept again.
BY_ITSELF = "wakeful"
TOLD_OR_GONE = "its source could read it, or it is gone"
# How the reason of such a thing ends.
TOLD_THEN = "It is told by itself then"


@dataclass(slots=True)
class TakenIn:
    """What became of it: a receipt for each event, in their order."""

    receipts: list[Receipt]
    kept: int = 0  # how many of those that were to be kept are new
    cutting: bool = False  # unverified inputs are cut because of their bytes since this one, after a day without


@dataclass(slots=True)
class TakeIn(WithEvents[TakenIn]):
    """Store what a source brought, and where it stands now. All of it or nothing.

    With a `token`, only the holder may: else SourceLost comes back. A cursor of None leaves the stored one as it is.
    """

    app: str
    source: str
    accept: AcceptEvents | None = None
    process: str | None = None
    token: int | None = None
    cursor: str | None = None
    items: list[Item] = field(default_factory=list)
    kept: list[Kept] = field(default_factory=list)
    settled: list[str] = field(
        default_factory=list
    )  # keys of what is in quarantine, and need not be looked at any more
    lag: Microseconds | None = None
    behind: int | None = None
    ceiling: int | None = (
        None  # over so many bytes the oldest unverified inputs of the app are cut; None: housekeeping cuts
    )

    fenced = True

    def alarming(self) -> bool:
        return self.accept is not None and self.accept.alarmed


@dataclass(slots=True)
class ReportSource(Request[None]):
    """How a source is. Counts are added to those that are stored; None leaves a figure as it is.

    With a `token` it is the holder who says so, and somebody else's word is ignored.
    """

    app: str
    name: str
    state: SourceState | None = None
    error: str | None = None
    token: int | None = None
    lag: Microseconds | None = None
    behind: int | None = None
    taken: int = 0
    repeated: int = 0
    refused: int = 0
    event_at: Microseconds | None = None
    alarm: Alarm | None = None
    resolves: str | None = None  # the key of an alarm that is over with this

    def alarming(self) -> bool:
        return self.resolves is not None or self.alarm is not None


@dataclass(slots=True)
class SettleQuarantine(WithEvents[TakenIn | None], ByPerson[TakenIn | None]):
    """Say what becomes of something in quarantine: `accept` has the events that were made of it; without them it is discarded.

    None comes back when it was settled before, or is not there.
    """

    app: str
    key: str  # of its event
    accept: AcceptEvents | None = None

    def audit(self, result: TakenIn | None) -> Audit | None:
        verb = "discard" if self.accept is None else "release"
        return None if result is None else Audit(f"quarantine {verb}", self.app, self.key, self.note)


@dataclass(slots=True)
class ForgetSource(ByPerson[bool]):
    """Remove a source, with its cursor and its items: for one that is declared no more. False comes back when there is none, or
    a process that is alive reads it.
    """

    app: str
    name: str

    def audit(self, result: bool) -> Audit | None:
        return Audit("sources forget", self.app, self.name, self.note) if result else None


@dataclass(slots=True)
class ForgetOld(Request[int]):
    """Forget other names of events that were made before then, and things that have been gone for longer, at most so many of
    each. It comes back how many were forgotten.
    """

    app: str
    aliases_before: Microseconds
    items: list[tuple[str, Microseconds]] = field(default_factory=list)  # (source, before)
    most: int = 500


@dataclass(frozen=True, slots=True)
class StoredSource:
    """A source as it is stored."""

    app: str
    name: str
    kind: str
    state: SourceState
    cursor: str | None
    holder: str | None
    token: int
    error: str | None
    since: Microseconds
    lag: Microseconds | None
    behind: int | None
    taken: int
    repeated: int
    refused: int
    quarantined: int
    event_at: Microseconds | None
    read_at: Microseconds | None
    agents: str | None  # JSON


def source_alarm(app: str, name: str) -> str:
    """The key of the alarm about a source that cannot be read."""
    return f"source/{app}/{name}"


def concern_alarm(alarm: str) -> str:
    """The key of the one beside it: it can be read, but all is not well."""
    return f"{alarm}/concern"
