"""Occurrences that are over, done after all: their events, and the ledger that says so, in one transaction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from wakeful.clock import Microseconds
from wakeful.model import Arrival, OccurrenceState
from wakeful.stores.request import Audit, ByPerson
from wakeful.stores.timing import Fired, StoredSchedule
from wakeful.stores.transaction import Row, Transaction
from wakeful.stores.verbs.accept import AcceptEvents, accept_events
from wakeful.stores.verbs.with_events import WithEvents


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """A row of the ledger: these occurrences ended like that."""

    seq: int
    state: OccurrenceState
    first: Microseconds
    last: Microseconds


@dataclass(slots=True)
class FillOccurrences(WithEvents[Fired], ByPerson[Fired]):
    """Fire occurrences of a schedule that are over, each as a row of its own in the ledger, and count them on the row that they
    had, `redoes`: None for one that had none. `accept` has one arrival for each of the `occurrences`.

    One whose event is there already was done before, by whomever: for that one nothing happens.
    """

    schedule: StoredSchedule
    occurrences: list[Microseconds]
    redoes: list[int | None]
    accept: AcceptEvents
    reason: str

    @property
    def woken(self) -> list[tuple[str, str]]:
        return self.accept.woken

    def audit(self, result: Fired) -> Audit | None:
        words = f"{self.counted(result)} occurrences" + (f": {self.note}" if self.note else "")
        return Audit("backfill", self.schedule.app, self.schedule.agent, words)

    def counted(self, result: Fired) -> int:
        return sum(one.status != "duplicate" and bool(one.runs) for one in result.receipts)


def fill_occurrences(now: int | None, requests: Sequence[FillOccurrences]) -> Transaction[list[Fired]]:
    """1. The events; whoever comes second finds them there. 2. A row for each that is new. 3. Count them on the rows they had,
    in order, so that two who do that at once never wait for each other in a circle.
    """
    answers = yield from accept_events(now, [one.accept for one in requests])
    rows: list[Row] = []
    redone: Counter[int] = Counter()
    results = []
    for one, receipts in zip(requests, answers, strict=True):
        if isinstance(receipts, Exception):
            raise receipts
        results.append(Fired(receipts))
        seq, revision = one.schedule.seq, one.schedule.revision
        filled = zip(one.occurrences, one.redoes, one.accept.arrivals, receipts, strict=True)
        for occurrence, row, arrival, receipt in filled:
            if receipt.status == "duplicate":
                continue
            if receipt.runs:
                rows.append((now, seq, "fired", one.reason, occurrence, occurrence, 1, revision, receipt.runs[0]))
                redone.update([] if row is None else [row])
            else:
                reason = f"{one.reason}; {refusal(arrival)}"
                rows.append((now, seq, "skipped", reason, occurrence, occurrence, 1, revision, None))
    if rows:
        yield "insert_occurrence", rows
    if redone:
        yield "redo_occurrence", sorted(redone.items())
    return results


def refusal(arrival: Arrival) -> str:
    """What the door made of an event that no run came of."""
    for admission in arrival.admissions:
        return f"{admission.state}: {admission.reason}" if admission.reason else admission.state
    return "no agent took it"
