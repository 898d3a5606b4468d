"""The read side: rows as the JSON objects that the HTTP API and `--json` show.

The reader is made of the readers of single nouns, one file each in `readers/`. Their larger parts are loaded when they are first asked: a
listing of runs need not know the rules of time.
"""

from __future__ import annotations

from typing import Any

from wakeful.readers.agents import ReadsAgents
from wakeful.readers.alarms import ReadsAlarms
from wakeful.readers.approvals import ReadsApprovals
from wakeful.readers.apps import ReadsApps
from wakeful.readers.checks import ReadsChecks
from wakeful.readers.circuits import ReadsCircuits
from wakeful.readers.deliveries import ReadsDeliveries
from wakeful.readers.due import ReadsDue
from wakeful.readers.effects import ReadsEffects
from wakeful.readers.events import ReadsEvents
from wakeful.readers.expectations import ReadsExpectations
from wakeful.readers.guards import ReadsGuards
from wakeful.readers.locks import ReadsLocks
from wakeful.readers.pauses import ReadsPauses
from wakeful.readers.processes import ReadsProcesses
from wakeful.readers.quarantine import ReadsQuarantine
from wakeful.readers.reminders import ReadsReminders
from wakeful.readers.runs import ReadsRuns
from wakeful.readers.schedules import ReadsSchedules
from wakeful.readers.sources import ReadsSources
from wakeful.readers.states import ReadsStates
from wakeful.stores.reads import LONGEST_PAGE, SHORTEST_PREFIX

__all__ = ["LONGEST_PAGE", "SHORTEST_PREFIX", "Reader"]


class Reader(
    # A noun that reads another one stands before it.
    ReadsDue,
    ReadsEvents,
    ReadsLocks,
    ReadsSources,
    ReadsSchedules,
    ReadsApps,
    ReadsRuns,
    ReadsAgents,
    ReadsEffects,
    ReadsDeliveries,
    ReadsPauses,
    ReadsApprovals,
    ReadsReminders,
    ReadsStates,
    ReadsChecks,
    ReadsCircuits,
    ReadsQuarantine,
    ReadsAlarms,
    ReadsExpectations,
    ReadsGuards,
    ReadsProcesses,
):
    """Answers questions about what is stored."""

    async def why(self, identifier: str) -> dict[str, Any] | None:
        """The whole story of an event, a run, a delivery or a schedule, or None."""
        from wakeful.why import why

        return await why(self, identifier)
