"""One new event for one agent, on its way to a run."""

from __future__ import annotations

from dataclasses import dataclass

from wakeful.clock import Microseconds
from wakeful.model import AdmissionState, Flow
from wakeful.stores.lanes import Lane


@dataclass(slots=True)
class Entry:
    """One new event for one agent, and its admission."""

    app: str
    agent: str
    event_seq: int
    run: str | None
    flow: Flow
    event: str = ""  # its id
    expires_at: Microseconds | None = None
    state: AdmissionState = "started"
    reason: str | None = None

    def become(self, state: AdmissionState, reason: str, run: str | None = None) -> None:
        self.state, self.reason, self.run = state, reason, run

    @property
    def lane(self) -> Lane:
        return self.app, self.agent, self.flow.key or ""
