"""The read side: rows as the JSON objects that the HTTP API and `--json` show.

The reader is made of the readers of single nouns, one file each in `readers/`. Their larger parts are loaded when they are first asked: a
listing of runs need not know the rules of time.
"""

from __future__ import annotations

from typing import Any

from wakeful.stores.readers.agents import ReadsAgents
from wakeful.stores.readers.alarms import ReadsAlarms
from wakeful.stores.readers.approvals import ReadsApprovals
from wakeful.stores.readers.apps import ReadsApps
from wakeful.stores.readers.base import LONGEST_PAGE, SHORTEST_PREFIX, ReadableDatabase
from wakeful.stores.readers.checks import ReadsChecks
from wakeful.stores.readers.circuits import ReadsCircuits
from wakeful.stores.readers.deliveries import ReadsDeliveries
from wakeful.stores.readers.due import ReadsDue
from wakeful.stores.readers.effects import ReadsEffects
from wakeful.stores.readers.events import ReadsEvents
from wakeful.stores.readers.expectations import ReadsExpectations
from wakeful.stores.readers.guards import ReadsGuards
from wakeful.stores.readers.locks import ReadsLocks
from wakeful.stores.readers.pauses import ReadsPauses
from wakeful.stores.readers.processes import ReadsProcesses
from wakeful.stores.readers.quarantine import ReadsQuarantine
from wakeful.stores.readers.reminders import ReadsReminders
from wakeful.stores.readers.runs import ReadsRuns
from wakeful.stores.readers.schedules import ReadsSchedules
from wakeful.stores.readers.sources import ReadsSources
from wakeful.stores.readers.states import ReadsStates

__all__ = ["LONGEST_PAGE", "SHORTEST_PREFIX", "ReadableDatabase", "Reader"]


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
