"""The fields of events and effects that operations over many of them read."""

from __future__ import annotations

from dataclasses import dataclass

from wakeful.clock import Microseconds
from wakeful.model import AdmissionState


@dataclass(frozen=True, slots=True)
class EventToFeed:
    """An event that may be handed to an agent later, and its earlier admission for that agent, if there is one."""

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
    """The fields of a held effect that settling many effects needs."""

    id: str
    agent: str
    action: str
    run: str
    called: bool
    opened_at: Microseconds
    reason: str | None
    staged: bool
    returns: str | None  # the JSON schema of its action's result, if it is known and code reads the result
