"""What a write is told whose run has another owner."""

from __future__ import annotations

from collections.abc import Sequence

from wakeful.errors import ClaimLost
from wakeful.model import Claim
from wakeful.stores.base import Row, Transaction


def lost(claim: Claim) -> ClaimLost:
    return ClaimLost(f"run {claim.id} is no longer owned by this process (token {claim.token}): nothing was written")


def refused(claims: Sequence[Claim], written: Sequence[Row]) -> Transaction[dict[tuple[int, int], ClaimLost]]:
    """Whose write was refused. A run that nobody runs any more but that still has our token was moved by ourselves:
    the answer to that COMMIT was lost, and this is its repetition.
    """
    if len(written) == len(claims):
        return {}
    kept = {row[0] for row in written}
    missing = [claim for claim in claims if claim.seq not in kept]
    rows = yield "token_of_run", [(claim.seq,) for claim in missing]
    found = {row[0]: (row[1], row[2]) for row in rows}
    return {
        (claim.seq, claim.token): lost(claim)
        for claim in missing
        if found.get(claim.seq, (None, None))[0] != claim.token or found[claim.seq][1] == "running"
    }
