"""Failed runs that must undo their effects before they become dead letters.

    running ──► fails for good ──┬─► no effects ─────────────────────────────────────────► dead
                                 └─► effects: the failure is stored, and the run goes on ─► undone, the latest first ─► dead

The first transition is atomic, so after a crash the next attempt finds a run that is asked to stop and continues undoing. The last one is
the end of any dead letter, and drops what the run had prepared.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pydantic_core import to_json

from wakeful.errors import CancelAsked
from wakeful.stores.transaction import Transaction
from wakeful.stores.verbs.refusal import Refusal, refusal_of

if TYPE_CHECKING:
    from wakeful.stores.verbs.progress import FinishRun

Place = tuple[int, int]


def begin_undoing(now: int | None, requests: Sequence[FinishRun]) -> Transaction[dict[Place, Refusal]]:
    """Start undoing for the runs that have effects. Returns the refusal of each, instead of its end."""
    told: dict[Place, Refusal] = {}
    for one in sorted(requests, key=lambda one: one.claim.seq):
        claim, asked = one.claim, one.undo
        if asked is None or not (yield "done_outside", [(claim.root, claim.seq)]):
            continue
        place = (claim.seq, claim.token)
        raises = {} if one.alarm is None else {"alarm": one.alarm.key}
        failed_with = to_json({"error": one.error, "reason": one.reason, **raises}).decode()
        row = (now, *place, asked.by, asked.note, failed_with, int(one.failed))
        if (yield "undo_failed", [row]):
            attempt = (now, *place, claim.process, one.state, one.error, claim.claimed_at)
            yield "insert_attempt", [attempt]
            told[place] = CancelAsked(claim.id, asked.by, asked.note)
        else:  # the answer to this COMMIT was lost, a person was first, or the run has another owner
            told[place] = refusal_of(claim, (yield "token_of_run", [(claim.seq,)]))
    return told
