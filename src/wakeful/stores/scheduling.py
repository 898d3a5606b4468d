"""What a store can be asked about schedules that runs make."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from wakeful.model import Decision, Step
from wakeful.stores.request import OfRun, Others
from wakeful.stores.timing import ChangeSchedule, StoredSchedule
from wakeful.stores.verbs.locks import HeldLock


@dataclass(slots=True)
class ScheduleByRun(OfRun[Step | None]):
    """Make, change or remove a schedule out of a run, together with the checkpoint that tells of it: both or neither, and
    neither once the run is somebody else's. `decide` is policy, asked in the same transaction.

    Comes back with the step as it is stored: done, or failed because policy did not allow it. None: the schedule is not as
    its caller knew it, and nothing was stored.
    """

    step: Step
    app: str
    name: str
    before: StoredSchedule | None  # as the caller knew it
    change: ChangeSchedule | None  # None: it is as it shall be
    decide: Callable[[], Decision]
    done: Callable[[StoredSchedule | None], str]  # what the checkpoint says
    denied: Callable[[Decision], str]  # what it says of a decision that is not "allow"
    locks: tuple[HeldLock, ...] = ()

    def tell(self, result: Step | None, others: Others) -> None:
        """Another process may be the one that has it due next."""
        others.all = others.all or result is not None
