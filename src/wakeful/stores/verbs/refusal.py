"""Refusals of writes whose run has another owner or is asked to stop."""

from __future__ import annotations

from collections.abc import Sequence

from wakeful.errors import CancelAsked, ClaimLost
from wakeful.model import Claim
from wakeful.stores.transaction import Row, Transaction

Refusal = ClaimLost | CancelAsked


def lost(claim: Claim) -> ClaimLost:
    return ClaimLost(f"run {claim.id} is no longer owned by this process (token {claim.token}): nothing was written")


def refusal_of(claim: Claim, rows: Sequence[Row]) -> Refusal:
    """Why a write was refused, by the run's row in `token_of_run`."""
    for _, token, state, _, by, note in rows:
        if (token, state) == (claim.token, "running") and by is not None and claim.cancelled is None:
            return CancelAsked(claim.id, by, note)
    return lost(claim)


def knows(claim: Claim) -> int:
    """Whether the run's owner knows that it is asked to stop, as a query parameter."""
    return int(claim.cancelled is not None)


def refused(claims: Sequence[Claim], written: Sequence[Row]) -> Transaction[dict[tuple[int, int], Refusal]]:
    """The refused writes. A run that is no longer running but still has our token was moved by ourselves: the answer to that COMMIT was
    lost, and this is its repetition.
    """
    if len(written) == len(claims):
        return {}
    kept = {row[0] for row in written}
    missing = [claim for claim in claims if claim.seq not in kept]
    rows = yield "token_of_run", [(claim.seq,) for claim in missing]
    found = {row[0]: row for row in rows}
    return {
        (claim.seq, claim.token): refusal_of(claim, [found[claim.seq]] if claim.seq in found else [])
        for claim in missing
        if claim.seq not in found or found[claim.seq][1] != claim.token or found[claim.seq][2] == "running"
    }
