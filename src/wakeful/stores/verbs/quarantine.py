"""Quarantine: a person releases an input as events, or discards it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wakeful.model import Receipt
from wakeful.stores.request import Audit, ByPerson
from wakeful.stores.transaction import Fetcher, Transaction
from wakeful.stores.verbs.accept import AcceptEvents, accept_events
from wakeful.stores.verbs.quarantine_room import free_room
from wakeful.stores.verbs.take_in import TakenIn
from wakeful.stores.verbs.with_events import WithEvents

KEPT_PAGE = 10_000


@dataclass(slots=True)
class EndQuarantine(WithEvents[TakenIn | None], ByPerson[TakenIn | None]):
    """Close a quarantined input: `accept` has the events made from it; without them it is discarded.

    None if it was closed before or does not exist.
    """

    app: str
    key: str  # of its event
    accept: AcceptEvents | None = None

    def audit(self, result: TakenIn | None) -> Audit | None:
        verb = "discard" if self.accept is None else "release"
        return None if result is None else Audit(f"quarantine {verb}", self.app, self.key, self.note)


def end_quarantined(now: int | None, requests: Sequence[EndQuarantine]) -> Transaction[list[TakenIn | None]]:
    """If several people close the same input at once, one wins, and only that one's events are stored. The event made from it is recorded
    under the key by which it is known, also if it was known before.
    """
    results: dict[int, TakenIn | None] = {}
    for number in sorted(range(len(requests)), key=lambda one: requests[one].key):
        one = requests[number]
        state, became, made = "discarded", None, None
        if one.accept is not None:
            first = one.accept.arrivals[0]
            named = (yield "find_alias", [(alias,) for alias in sorted(first.aliases)]) if first.aliases else []
            state, became, made = "released", named[0][1] if named else first.key, len(one.accept.arrivals)
        closed = yield "end_quarantine", [(now, one.app, one.key, state, became, made, one.by.name, one.note)]
        if not closed:
            results[number] = None
            continue
        if state == "released":
            yield from free_room([(one.app, closed[0][0])])
        receipts: list[Receipt] = []
        if one.accept is not None:
            answer = (yield from accept_events(now, [one.accept]))[0]
            if isinstance(answer, Exception):
                raise answer
            receipts = answer
        results[number] = TakenIn(receipts)
    return [results[number] for number in range(len(requests))]


async def kept_inputs(database: Fetcher, app: str, source: str) -> list[str]:
    """The keys of the inputs of a source that could not be read and wait for a person."""
    found: list[str] = []
    after = 0
    while rows := await database.fetch("kept_of_source", app, source, "unreadable", after, KEPT_PAGE):
        found += [key for _, key in rows]
        after = rows[-1][0]
    return found
