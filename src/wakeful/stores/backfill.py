"""What a store can be asked when instants of a schedule that are over are done after all."""

from __future__ import annotations

from dataclasses import dataclass

from wakeful.clock import Microseconds
from wakeful.model import OccurrenceState
from wakeful.stores.request import Audit, ByPerson
from wakeful.stores.timing import Fired, StoredSchedule
from wakeful.stores.verbs.accept import AcceptEvents
from wakeful.stores.verbs.with_events import WithEvents


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """A row of the ledger: these instants ended like that."""

    seq: int
    state: OccurrenceState
    first: Microseconds
    last: Microseconds


@dataclass(slots=True)
class FillInstants(WithEvents[Fired], ByPerson[Fired]):
    """Fire instants of a schedule that are over, each as a row of its own in the ledger, and count them on the row that they
    had, `redoes`: None for one that had none. `accept` has one arrival for each of the `instants`.

    One whose event is there already was done before, by whomever: for that one nothing happens.
    """

    schedule: StoredSchedule
    instants: list[Microseconds]
    redoes: list[int | None]
    accept: AcceptEvents
    reason: str

    @property
    def woken(self) -> list[tuple[str, str]]:
        return self.accept.woken

    def audit(self, result: Fired) -> Audit | None:
        words = f"{self.counted(result)} instants" + (f": {self.note}" if self.note else "")
        return Audit("backfill", self.schedule.app, self.schedule.agent, words)

    def counted(self, result: Fired) -> int:
        return sum(one.status != "duplicate" and bool(one.runs) for one in result.receipts)
