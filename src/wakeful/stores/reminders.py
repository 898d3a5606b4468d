"""What a store can be asked about reminders. Each is a schedule of one instant; these are the questions that no other one has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from wakeful.clock import Microseconds
from wakeful.model import Step
from wakeful.stores.request import OfRun, Others
from wakeful.stores.timing import ChangeSchedule, StoredSchedule
from wakeful.stores.verbs.locks import HeldLock


@dataclass(slots=True)
class MakeReminder(OfRun[StoredSchedule]):
    """Make a reminder out of a run, together with the checkpoint that tells of it: both or neither, and neither once the run
    is somebody else's. One of that name that is there already, made by an earlier run of the family, is the answer.
    """

    step: Step
    change: ChangeSchedule
    written: Callable[[StoredSchedule], str]  # what the checkpoint says
    locks: tuple[HeldLock, ...] = ()

    def tell(self, result: StoredSchedule, others: Others) -> None:
        """Another process may be the one that has it due next."""
        others.all = others.all or result is not None


@dataclass(frozen=True, slots=True)
class CameSince:
    """An event that came after something was noted, and its place among those. `envelope` is empty once its retention time is
    over.
    """

    id: str
    source: str
    envelope: str
    accepted_at: Microseconds
    place: str


BEFORE_ALL = "0/0"  # a place
