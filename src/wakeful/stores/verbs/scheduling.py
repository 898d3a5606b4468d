"""Schedules that runs make: policy's decision, the change and the checkpoint, in one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic_core import to_json

from wakeful.errors import CancelAsked, ClaimLost, LockLost
from wakeful.model import Decision, Step
from wakeful.stores.request import OfRun, Others
from wakeful.stores.timing import StoredSchedule
from wakeful.stores.transaction import Count, Transaction
from wakeful.stores.verbs.locks import HeldLock, lost_locks
from wakeful.stores.verbs.progress import step_row
from wakeful.stores.verbs.refusal import refusal_of
from wakeful.stores.verbs.schedules import ChangeSchedule, change_schedules
from wakeful.stores.verbs.standing import stored_mode


@dataclass(slots=True)
class ScheduleByRun(OfRun[Step | None]):
    """Create, change or remove a schedule from a run, together with its checkpoint: both or neither. Refused if the claim or a lock is
    lost.

    Returns the step as stored: done, or failed with `denied` because policy did not allow it. None if the schedule is not as the caller knew it; then
    nothing was stored.
    """

    step: Step
    app: str
    name: str
    before: StoredSchedule | None  # as the caller knew it
    change: ChangeSchedule | None  # None: it already is as wanted
    decision: Decision  # of policy, asked just before
    done: str | None  # the result of the step; None: when the schedule is due next
    denied: str  # the error of the step, if the decision is not "allow"
    locks: tuple[HeldLock, ...] = ()
    watched: tuple[Decision, ...] = ()  # of rules with mode: watch

    def tell(self, result: Step | None, others: Others) -> None:
        """Another process may be the one that fires it next."""
        others.all = others.all or result is not None


Result = Step | ClaimLost | CancelAsked | LockLost | None


def schedule_by_runs(now: int | None, requests: Sequence[ScheduleByRun]) -> Transaction[list[Result]]:
    """In order of the schedules' names, like every other change."""
    refused = yield from lost_locks(requests)
    results: dict[int, Result] = {**refused}
    for number in sorted(range(len(requests)), key=lambda one: (requests[one].app, requests[one].name)):
        if number not in refused:
            results[number] = yield from _schedule(now, requests[number])
    return [results[number] for number in range(len(requests))]


def _schedule(now: int | None, request: ScheduleByRun) -> Transaction[Result]:
    """1. The fence: a run that has another owner or is asked to stop changes nothing. 2. If an earlier attempt stored the step and its
    answer was lost, return that step. 3. Ask policy. 4. Make the change, if the schedule is as the caller knew it. 5. Save the
    checkpoint.
    """
    claim, step = request.claim, request.step
    owned = yield "token_of_run", [(claim.seq,)]
    if not owned or owned[0][1] != claim.token or owned[0][2] != "running" or owned[0][4] is not None:
        return refusal_of(claim, owned)
    stored = [Step(*row[1:]) for row in (yield "load_steps", [(claim.seq,)])]
    known = next((one for one in stored if one.key == step.key and one.state in {"done", "failed"}), None)
    if known is not None:
        return known
    decision = request.decision
    if decision.answer != "allow":
        yield "insert_run_decision", [_decision_row(now, request, one) for one in (*request.watched, decision)]
        step.state, step.error = "failed", request.denied
    else:
        after: StoredSchedule | None = request.before
        if request.change is not None:
            after = (yield from change_schedules(now, [request.change]))[0]
            if after is None:
                return None
        elif not (yield from _is_still_so(request)):
            return None
        if request.watched:
            yield "insert_run_decision", [_decision_row(now, request, one) for one in request.watched]
        step.result = request.done or to_json({"next_at": None if after is None else after.next_at}).decode()
    yield Count("save_step", [step_row(claim, step)])
    return step


def _decision_row(now: int | None, request: ScheduleByRun, one: Decision) -> tuple[object, ...]:
    claim = request.claim
    row = (now, claim.seq, claim.agent, one.answer, one.rule, one.version, one.reason)
    return (*row, "schedule", None, None, stored_mode(one))


def _is_still_so(request: ScheduleByRun) -> Transaction[bool]:
    before = request.before
    found = yield "lock_schedule", [(request.app, request.name)]
    if before is None:
        return not found
    return bool(found) and (found[0][1], found[0][4]) == (before.revision, before.state)
