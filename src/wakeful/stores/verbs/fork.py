"""fork: a new run of a family that keeps the steps finished before a given step and executes the rest again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic_core import from_json, to_json

from wakeful.model import FINAL_RUN_STATES
from wakeful.stores.lanes import Lanes
from wakeful.stores.request import Audit, ByPerson
from wakeful.stores.transaction import Transaction
from wakeful.stores.verbs.consent import ask_anew_in_family
from wakeful.stores.verbs.redo import Redone, RunToRedo, data_of, queue


@dataclass(slots=True)
class ForkRun(ByPerson[Redone | None]):
    """Fork a run whose family has ended. The new run keeps what was finished before the step with this `key`, called `step` in
    messages. `results` replaces stored results, by step key; `edited` is the same by step name, for the record. None if there is no
    such run; refused if the run or its family is open.
    """

    id: str
    key: str
    step: str
    data: str | None = None
    results: dict[str, str] = field(default_factory=dict)
    edited: dict[str, Any] = field(default_factory=dict)

    def lock_keys(self, lanes: Lanes) -> None:
        lanes.named.add(self.id)

    def audit(self, result: Redone | None) -> Audit | None:
        if result is None or result.refused is not None:
            return None
        words = f"{result.run} from {self.step}" + (f": {self.note}" if self.note else "")
        return Audit("fork", None, self.id, words)


def fork_runs(now: int | None, requests: Sequence[ForkRun]) -> Transaction[list[Redone | None]]:
    results: list[Redone | None] = []
    for request in requests:
        forked = yield from _fork(now, request)
        results.append(forked)
    return results


def _fork(now: int | None, request: ForkRun) -> Transaction[Redone | None]:
    """1. Lock and read the run, and the first of its family, which gives out the numbers. 2. Insert the new run, with the kept steps
    and their edited results. 3. Record who forked it and from where.
    """
    root = request.id.partition(".")[0]
    rows = yield "find_run_to_redo", [(one,) for one in sorted({root, request.id})]
    found = {row[1]: RunToRedo(*row) for row in rows}
    run = found.get(request.id)
    if run is None:
        return None
    place = yield "step_position", [(run.seq, request.key)]
    at_work = yield "family_at_work", [(run.root, run.seq)]
    if run.state not in FINAL_RUN_STATES:
        return Redone(run.id, run.state, f"is {run.state}: only a run that has ended can be forked")
    if at_work:
        words = f"shares its effects with run {at_work[0][1]}, which has not ended: wait for that run, or cancel it"
        return Redone(run.id, run.state, words)
    if not place:
        return Redone(run.id, run.state, f"has no step {request.step} any more")
    number = (yield "count_family", [(run.root,)])[0][1] + 1
    name = f"{run.root}.{number}"
    reason = f"forked from run {run.id} at {request.step} by {request.by.name}" + (
        f": {request.note}" if request.note else ""
    )
    data = (yield from data_of([run.seq]))[run.seq] if request.data is None else request.data
    (made,) = yield "insert_again", [(now, name, run.seq, reason, data)]
    yield "begin_in_the_middle", [(made[1],)]
    yield from ask_anew_in_family(now, [run.root])
    steps = yield "steps_to_copy", [(run.seq, place[0][0])]
    yield "copy_step", [(made[1], *step) for step in steps]
    waits = yield "waits_to_copy", [(made[1], run.seq)]
    yield "copy_wait", [(made[1], *wait) for wait in waits]
    if run.gathered > 1:
        yield "copy_members", [(run.seq, made[1])]
    yield from queue([(run, made[1])])
    if request.results:
        yield "edit_step", [(made[1], key, result) for key, result in sorted(request.results.items())]
    about: dict[str, object] = {"run": run.id, "step": request.step}
    if request.data is not None:
        about["data"] = from_json(request.data)
    if request.results:
        about["steps"] = request.edited
    told = to_json(about).decode()
    yield "insert_remedy", [(now, made[1], "fork", request.by.name, request.note, told, None)]
    return Redone(name, run.state)
