"""send: an event that a person sends, stored together with its author."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from wakeful.stores.request import Actor, Audit, ByPerson
from wakeful.stores.timing import Fired
from wakeful.stores.transaction import Transaction
from wakeful.stores.verbs.accept import AcceptEvents, accept_events
from wakeful.stores.verbs.with_events import WithEvents

Sending = Literal["emit", "run", "checkin"]


@dataclass(frozen=True, slots=True)
class SentBy:
    """Who sends an event, by which verb, and a description of the event, which the audit row completes with the result."""

    by: Actor
    verb: Sending
    words: str


@dataclass(slots=True)
class SendEvent(WithEvents[Fired], ByPerson[Fired]):
    """Accept one event that a person sends: by `emit`, to one agent by `run`, or to report something done by `checkin`."""

    accept: AcceptEvents
    verb: Sending
    words: str

    def audit(self, result: Fired) -> Audit | None:
        receipt = result.receipts[0]
        became = f"{self.words}: {receipt.status}"
        if self.verb != "run":
            return Audit(self.verb, self.accept.app, receipt.id, became)
        if receipt.runs:
            return Audit(self.verb, self.accept.app, receipt.runs[0], became)
        return Audit(self.verb, self.accept.app, receipt.id, f"{became}, no run")


def send_events(now: int | None, requests: Sequence[SendEvent]) -> Transaction[list[Fired | Exception]]:
    answers = yield from accept_events(now, [one.accept for one in requests])
    return [answer if isinstance(answer, Exception) else Fired(answer) for answer in answers]
