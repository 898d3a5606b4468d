"""Reminders that runs make: a schedule and a checkpoint, in one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wakeful.stores.reminders import MakeReminder
from wakeful.stores.transaction import Count, Transaction
from wakeful.stores.verbs.progress import SaveSteps, save_steps, step_row
from wakeful.stores.verbs.schedules import change_schedules, schedule_of


def make_reminders(now: int | None, requests: Sequence[MakeReminder]) -> Transaction[list[Any]]:
    """1. The checkpoints, which are the fence: a run that was lost makes nothing. 2. The schedules, in the order of their names
    as everybody changes them. 3. The checkpoints again, with what came of it.
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
