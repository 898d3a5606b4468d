"""The consequences of a run's end, in the same transaction as the end.

All of them are idempotent: after a COMMIT whose answer was lost, the whole transaction is repeated.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from wakeful.model import Claim
from wakeful.stores.transaction import Transaction
from wakeful.stores.verbs.waits import Woken, close_waits, tell_joined, tell_parents


class Ended(NamedTuple):
    """A run that ended: done, dead, denied or cancelled."""

    claim: Claim
    state: str
    output: str | None = None
    error: str | None = None
    reason: str | None = None


def runs_ended(now: int | None, ended: Sequence[Ended]) -> Transaction[Woken]:
    """Close the runs' waits and tell their callers. Most runs have neither, and then this costs nothing."""
    woken: Woken = []
    waited = [one.claim for one in ended if one.claim.steps]
    if waited:
        yield from close_waits(now, waited)
    called = [one for one in ended if one.claim.parent is not None or one.claim.once]
    if called:
        told = [(one.claim, one.state, one.output, one.error, one.reason) for one in called]
        woken += yield from tell_parents(now, told)
        woken += yield from tell_joined(now, [one for one in told if one[0].once])
    return woken
