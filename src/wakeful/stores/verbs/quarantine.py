"""What is in quarantine, and what a person makes of it: events, or nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wakeful.model import Receipt
from wakeful.stores.request import Audit, ByPerson
from wakeful.stores.transaction import Transaction
from wakeful.stores.verbs.accept import AcceptEvents, accept_events
from wakeful.stores.verbs.quarantine_room import free_room
from wakeful.stores.verbs.take_in import TakenIn
from wakeful.stores.verbs.with_events import WithEvents


@dataclass(slots=True)
class EndQuarantine(WithEvents[TakenIn | None], ByPerson[TakenIn | None]):
    """Say what becomes of something in quarantine: `accept` has the events that were made of it; without them it is discarded.

    None comes back when it was settled before, or is not there.
    """

    app: str
    key: str  # of its event
    accept: AcceptEvents | None = None

    def audit(self, result: TakenIn | None) -> Audit | None:
        verb = "discard" if self.accept is None else "release"
        return None if result is None else Audit(f"quarantine {verb}", self.app, self.key, self.note)


def end_quarantined(now: int | None, requests: Sequence[EndQuarantine]) -> Transaction[list[TakenIn | None]]:
    """Of several who settle the same at once, one wins: only that one's events are stored. What was made of it is noted under the
    name by which it is known, also where that was known before.
    """
    results: dict[int, TakenIn | None] = {}
    for number in sorted(range(len(requests)), key=lambda one: requests[one].key):
        one = requests[number]
        state, became, made = "discarded", None, None
        if one.accept is not None:
            first = one.accept.arrivals[0]
            named = (yield "find_alias", [(alias,) for alias in sorted(first.aliases)]) if first.aliases else []
            state, became, made = "released", named[0][1] if named else first.key, len(one.accept.arrivals)
        settled = yield "end_quarantine", [(now, one.app, one.key, state, became, made, one.by.name, one.note)]
        if not settled:
            results[number] = None
            continue
        if state == "released":
            yield from free_room([(one.app, settled[0][0])])
        receipts: list[Receipt] = []
        if one.accept is not None:
            answer = (yield from accept_events(now, [one.accept]))[0]
            if isinstance(answer, Exception):
                raise answer
            receipts = answer
        results[number] = TakenIn(receipts)
    return [results[number] for number in range(len(requests))]
