"""Backfill: fires past occurrences. Their events and their rows in the ledger are one transaction."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from pydantic_core import to_json

from wakeful.clock import Microseconds
from wakeful.model import Arrival, OccurrenceState
from wakeful.stores.request import Audit, ByPerson
from wakeful.stores.timing import Fired, StoredSchedule
from wakeful.stores.transaction import Fetcher, Row, Transaction
from wakeful.stores.verbs.accept import AcceptEvents, accept_events
from wakeful.stores.verbs.with_events import WithEvents

LEDGER_PAGE = 5_000


@dataclass(frozen=True, slots=True)
class OccurrenceRow:
    """A row of the ledger: the state that these occurrences ended in."""

    seq: int
    state: OccurrenceState
    first: Microseconds
    last: Microseconds


@dataclass(slots=True)
class FillOccurrences(WithEvents[Fired], ByPerson[Fired]):
    """Fire past occurrences of a schedule. Each gets a row of its own in the ledger and is counted on the row that it had before,
    `redoes`; None if it had none. `accept` has one arrival for each of the `occurrences`.

    An occurrence whose event exists was already done, perhaps by another process; it is skipped.
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
    """1. Accept the events; a second process finds them as duplicates. 2. Insert a row for each new one. 3. Count them on their
    previous rows, in order, so that two processes cannot deadlock.
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
    """Why an accepted event led to no run."""
    for admission in arrival.admissions:
        return f"{admission.state}: {admission.reason}" if admission.reason else admission.state
    return "no agent took it"


async def ledger_between(
    database: Fetcher, schedule: int, first: Microseconds, last: Microseconds
) -> AsyncIterator[list[OccurrenceRow]]:
    """The ledger of a schedule between two times, page by page."""
    after = (-1, -1)
    while True:
        rows = await database.fetch("ledger_between", schedule, first, last, *after, LEDGER_PAGE)
        page = [OccurrenceRow(*row) for row in rows]
        yield page
        if len(page) < LEDGER_PAGE:
            return
        after = (page[-1].last, page[-1].seq)


async def known_events(database: Fetcher, keys: list[str]) -> set[str]:
    """Those of the keys under which an event is stored."""
    return {row[0] for row in await database.fetch("known_events", to_json(keys).decode())}


async def not_begun(database: Fetcher, ids: list[str]) -> list[str]:
    """Those of the runs that no worker has begun."""
    return [row[0] for row in await database.fetch("not_begun", to_json(ids).decode())]
