"""Records that a run continues with other code than it began with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wakeful.model import Step
from wakeful.stores.alarm import Alarm
from wakeful.stores.request import OfRun
from wakeful.stores.transaction import Count, Transaction
from wakeful.stores.verbs.people import open_alarms
from wakeful.stores.verbs.progress import step_row
from wakeful.stores.verbs.refusal import Refusal, lost


@dataclass(slots=True)
class NoteChange(OfRun[None]):
    """Record a fact about a run that meets other code than it began with. With `version`, the run moves to that version; with
    `restart`, its recorded steps are dropped in the same transaction. Refused if the claim is lost.
    """

    fact: Step
    version: str | None = None
    restart: bool = False
    alarm: Alarm | None = None

    def alarming(self) -> bool:
        return self.alarm is not None


def note_changes(now: int | None, requests: Sequence[NoteChange]) -> Transaction[list[Refusal | None]]:
    """1. Set the new version, if there is one. 2. On a restart, drop the recorded steps and waits. 3. Store the fact. All are fenced by
    the run's token and idempotent.
    """
    results: list[Refusal | None] = []
    for request in sorted(requests, key=lambda one: one.claim.seq):
        claim = request.claim
        if request.version is not None:
            yield "note_version", [(claim.seq, claim.token, request.version)]
        if request.restart:
            yield "drop_steps", [(claim.seq, claim.token)]
            yield "drop_waits", [(claim.seq, claim.token)]
        saved = yield Count("save_step", [step_row(claim, request.fact)])
        if saved and request.alarm is not None:
            yield from open_alarms(now, [request.alarm])
        results.append(None if saved else lost(claim))
    by_claim = dict(
        zip((one.claim.seq for one in sorted(requests, key=lambda one: one.claim.seq)), results, strict=True)
    )
    return [by_claim[one.claim.seq] for one in requests]
