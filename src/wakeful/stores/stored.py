"""As much of an event or an effect as operations over many of them read."""

from __future__ import annotations

from dataclasses import dataclass

from wakeful.clock import Microseconds
from wakeful.model import AdmissionState


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """An event that may be handed to an agent later, and what became of it for that agent before, if anything did."""

    seq: int
    app: str
    source: str
    id: str
    type: str
    admission: AdmissionState | None = None
    run_id: str | None = None
    envelope: str | None = None


@dataclass(frozen=True, slots=True)
class HeldEffect:
    """As much of a held effect as it takes to settle many of them."""

    id: str
    agent: str
    action: str
    run: str
    called: bool
    opened_at: Microseconds
    reason: str | None
    staged: bool
    returns: str | None  # the JSON schema of what its action returns, if that is known and is read
