"""take in: stores the events of a source, its cursor and its items in one transaction.

With a token, the transaction checks who holds the source. So nothing is lost between the events and the cursor, and a reader that was
suspended or cut off can store nothing any more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from wakeful.clock import Microseconds
from wakeful.errors import SourceLost
from wakeful.model import Arrival, Receipt
from wakeful.stores.payloads import LARGE
from wakeful.stores.request import stands_for
from wakeful.stores.transaction import Fetcher, Row, Transaction
from wakeful.stores.verbs.accept import AcceptEvents, accept_events
from wakeful.stores.verbs.quarantine_room import ROOM_OF_ROWS, take_room
from wakeful.stores.verbs.with_events import WithEvents

ITEMS_PAGE = 10_000

QuarantineKind = Literal["unverified", "unreadable"]


# The form of quarantined bytes: as they came from outside, or an event that the source had read, as Wakeful wrote it.
QuarantineForm = Literal["raw", "event"]


@dataclass(frozen=True, slots=True)
class Item:
    """One item of a source as it was last seen. A changed `mark` means that the item changed."""

    item: str
    version: int
    mark: str
    gone: bool = False


@dataclass(frozen=True, slots=True)
class Kept:
    """An input that could not be verified or read: its event, which is quarantined, and its headers (JSON)."""

    arrival: Arrival
    kind: QuarantineKind
    headers: str | None = None
    size: int = 0  # of the bytes; 0 if only a name is stored
    form: QuarantineForm = "raw"  # set by Wakeful only: a release trusts it, so it never comes from headers

    @property
    def room(self) -> int:
        """About how many bytes it takes in the store: its event, its headers, and its rows."""
        return len(self.arrival.envelope) + len(self.headers or "") + ROOM_OF_ROWS


# Who closes a quarantined input that its source could read after all, and why. If it is refused again, it is quarantined again.
BY_ITSELF = "wakeful"


TOLD_OR_GONE = "its source could read it, or it is gone"


# The end of the reason of such an input.
TOLD_THEN = "It is told by itself then"


@dataclass(slots=True)
class TakenIn:
    """The result: a receipt for each event, in order."""

    receipts: list[Receipt]
    kept: int = 0  # how many of the quarantined inputs are new
    cutting: bool = False  # with this request unverified inputs began to be cut for their size, after a day without


@dataclass(slots=True)
class TakeIn(WithEvents[TakenIn]):
    """Store the events of a source and its new position, all or nothing.

    With a `token`, only the holder may; otherwise refused with SourceLost. A cursor of None leaves the stored one unchanged.
    """

    app: str
    source: str
    accept: AcceptEvents | None = None
    process: str | None = None
    token: int | None = None
    cursor: str | None = None
    items: list[Item] = field(default_factory=list)
    kept: list[Kept] = field(default_factory=list)
    recovered: list[str] = field(default_factory=list)  # keys of quarantined inputs that need no attention any more
    lag: Microseconds | None = None
    behind: int | None = None
    ceiling: int | None = (
        None  # above this many bytes the oldest unverified inputs of the app are cut; None: housekeeping cuts
    )

    fenced_by = stands_for("process")

    def alarming(self) -> bool:
        return self.accept is not None and self.accept.alarmed


def take_in(now: int | None, requests: Sequence[TakeIn]) -> Transaction[list[TakenIn | SourceLost]]:
    """1. Lock the held sources and check their holders. 2. Accept the events. 3. Insert new quarantined inputs and close recovered ones.
    4. Store items and cursors. 5. Add up the room of unverified inputs; above the ceiling, cut the oldest.
    """
    refused: dict[int, SourceLost] = {}
    order = sorted(range(len(requests)), key=lambda number: (requests[number].app, requests[number].source))
    for number in order:
        one = requests[number]
        if one.token is None:
            continue
        found = yield "lock_source", [(one.app, one.source)]
        if not found or tuple(found[0][:2]) != (one.process, one.token):
            refused[number] = SourceLost(
                f"source {one.source} is read by another process now (token {one.token}): nothing was stored"
            )
    going = [number for number in order if number not in refused]
    known = yield from _known_large([requests[number] for number in going])
    accepting = [_accept_of(requests[number], known) for number in going]
    answers = yield from accept_events(now, accepting)
    results: dict[int, TakenIn | SourceLost] = dict(refused)
    items: list[tuple[int | None, str, str, str, int, str, int]] = []
    moved: list[Row] = []
    rooms: list[tuple[int, int]] = []
    for number, answer in zip(going, answers, strict=True):
        one = requests[number]
        if isinstance(answer, Exception):
            raise answer
        receipts: list[Receipt] = answer[: len(answer) - len(one.kept)]
        kept = room = 0
        for held in one.kept:
            row = (held.arrival.key, one.app, one.source, held.kind, held.size, held.headers, held.form, held.room)
            new = len((yield "insert_quarantine", [row]))
            kept += new
            if not new and one.token is not None:
                yield "keep_again", [(one.app, held.arrival.key, BY_ITSELF)]
            room += held.room if new and held.kind == "unverified" else 0
        if one.recovered:
            by = ("discarded", None, None, BY_ITSELF, TOLD_OR_GONE)
            yield "end_quarantine", [(now, one.app, key, *by) for key in sorted(one.recovered)]
        items += [(now, one.app, one.source, item.item, item.version, item.mark, int(item.gone)) for item in one.items]
        repeated = sum(receipt.status == "duplicate" for receipt in receipts)
        moved.append((now, one.app, one.source, one.cursor, one.lag, one.behind, len(receipts), repeated, kept))
        results[number] = TakenIn(receipts, kept)
        if room:
            rooms.append((number, room))
    if items:
        yield "save_item", sorted(items, key=lambda row: tuple(row[1:4]))
    if moved:
        yield "move_source", moved
    for number, room in rooms:
        one, taken = requests[number], results[number]
        cutting = yield from take_room(now, one.app, room, one.ceiling)
        if isinstance(taken, TakenIn):
            taken.cutting = cutting
    return [results[number] for number in range(len(requests))]


def _known_large(requests: Sequence[TakeIn]) -> Transaction[set[int]]:
    """Large unverified inputs that are already stored, by object identity. Only their identity is stored again: otherwise a
    stranger who repeats one request would leave a blob each time that no row points to.
    """
    large = [
        kept
        for one in requests
        if one.accept is None
        for kept in one.kept
        if kept.kind == "unverified" and len(kept.arrival.envelope) > LARGE // 2
    ]
    if not large:
        return set()
    known = {
        row[0] for row in (yield "event_is_stored", [(key,) for key in sorted({one.arrival.key for one in large})])
    }
    found = set()
    for kept in large:
        if kept.arrival.key in known:
            found.add(id(kept))
        known.add(kept.arrival.key)
    return found


def _accept_of(one: TakeIn, known: set[int]) -> AcceptEvents:
    """The request's events, followed by those that are kept in quarantine."""
    held = [replace(kept.arrival, envelope="") if id(kept) in known else kept.arrival for kept in one.kept]
    if one.accept is None:
        return AcceptEvents(one.app, held)
    if held and one.accept.arrivals[-len(held) :] != held:  # the transaction may be retried
        one.accept.arrivals = [*one.accept.arrivals, *held]
    return one.accept


async def items_of(database: Fetcher, app: str, source: str) -> list[Item]:
    """The items that a source has seen."""
    found: list[Item] = []
    after = ""
    while rows := await database.fetch("items_of_source", app, source, after, ITEMS_PAGE):
        found += [Item(item, version, mark, bool(gone)) for item, version, mark, gone in rows]
        after = found[-1].item
    return found
