"""What a write is told whose run has another owner."""

from __future__ import annotations

from wakeful.errors import ClaimLost
from wakeful.model import Claim


def lost(claim: Claim) -> ClaimLost:
    return ClaimLost(f"run {claim.id} is no longer owned by this process (token {claim.token}): nothing was written")
