"""The events of runs that gathered several."""

from __future__ import annotations

from collections.abc import Sequence

from wakeful.model import Claim
from wakeful.stores.transaction import Transaction


def load_gathered(claims: Sequence[Claim]) -> Transaction[None]:
    """Read the events after the claim: an event that joined at the last moment is among them, and no other can join any more."""
    over_many = {claim.seq: claim for claim in claims if claim.gathered > 1}
    if over_many:
        for seq, envelope in (yield "load_members", [(seq,) for seq in sorted(over_many)]):
            over_many[seq].events.append(envelope)
