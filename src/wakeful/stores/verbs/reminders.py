"""Reminders that runs make: a schedule and a checkpoint, in one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from wakeful.clock import Microseconds
from wakeful.model import Step
from wakeful.stores.judging import Judge
from wakeful.stores.request import OfRun, Others
from wakeful.stores.tampered import Tampered
from wakeful.stores.timing import StoredSchedule
from wakeful.stores.transaction import Count, Fetcher, Transaction
from wakeful.stores.verbs.locks import HeldLock
from wakeful.stores.verbs.progress import SaveSteps, save_steps, step_row
from wakeful.stores.verbs.schedules import ChangeSchedule, change_schedules, schedule_of


@dataclass(slots=True)
class MakeReminder(OfRun[StoredSchedule]):
    """Create a reminder from a run, together with its checkpoint: both or neither. Refused if the claim is lost. If a reminder of that
    name exists, made by an earlier run of the family, it is the result.
    """

    step: Step
    change: ChangeSchedule
    written: Judge[[StoredSchedule], str]  # makes the checkpoint's result
    locks: tuple[HeldLock, ...] = ()

    def tell(self, result: StoredSchedule, others: Others) -> None:
        """Another process may be the one that fires it next."""
        others.all = others.all or result is not None


@dataclass(frozen=True, slots=True)
class CameSince:
    """An event that came after a recorded moment, with its position. `envelope` is empty once its retention time is over."""

    id: str
    source: str
    envelope: str
    accepted_at: Microseconds
    place: str


BEFORE_ALL = "0/0"  # a position before all events


def make_reminders(now: int | None, requests: Sequence[MakeReminder]) -> Transaction[list[Any]]:
    """1. Save the checkpoints as the fence: a run whose claim is lost makes nothing. 2. Make the schedules, in order of name like every
    other change. 3. Save the checkpoints again, with the result.
    """
    results: list[Any] = list(
        (yield from save_steps(now, [SaveSteps(one.claim, [one.step], one.locks) for one in requests]))
    )
    owned = [number for number, refusal in enumerate(results) if refusal is None]
    for number in sorted(owned, key=lambda one: (requests[one].change.app, requests[one].change.name)):
        request = requests[number]
        made = (yield from change_schedules(now, [request.change]))[0]
        if made is None:  # an earlier run of the family made it
            made = schedule_of((yield "find_schedule", [(now, request.change.app, request.change.name)])[0])
        request.step.result = request.written(made)
        yield Count("save_step", [step_row(request.claim, request.step)])
        results[number] = made
    return results


async def what_came(database: Fetcher) -> str:
    """A mark of all events that have come until now."""
    return str((await database.fetch("what_came"))[0][0])


async def came_since(database: Fetcher, app: str, type_: str, mark: str, passed: str = BEFORE_ALL) -> list[CameSince]:
    """The events of a type that the mark does not know, oldest first: a page of those after a place."""
    rows = await database.fetch("came_since", app, type_, mark, passed)
    return [CameSince(*row) for row in rows if not isinstance(row[2], Tampered)]
