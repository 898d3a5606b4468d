"""return: a person gives a held output back with a remark. The handler runs again and knows the remark.

held ──► its deliveries and staged effects are dropped, the remark is stored ──► ready

Nothing of the rejected round is lost: its steps stay in the record, before those of the next round, and its output stays in the remedy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic_core import from_json, to_json

from wakeful.stores.lanes import Lanes
from wakeful.stores.request import Audit, ByPerson
from wakeful.stores.tampered import Tampered, effect_to_settle, held_for_tampering, how_to_go_on
from wakeful.stores.transaction import Transaction
from wakeful.stores.verbs.held import HeldRun, resolve_held
from wakeful.stores.verbs.redo import Redone, RunToRedo, queue

REMARK = "remark"  # `remark 1`, `remark 2`, …: the keys of the stored facts


@dataclass(slots=True)
class Returned(Redone):
    """`number`: how often the run was returned by now."""

    number: int = 0


@dataclass(slots=True)
class ReturnRun(ByPerson[Returned | None]):
    """A person returns a held output with a remark. None if there is no such run; refused if no output is held."""

    id: str
    remark: str

    def lock_keys(self, lanes: Lanes) -> None:
        lanes.named.add(self.id)

    def audit(self, result: Returned | None) -> Audit | None:
        return None if result is None or result.refused is not None else Audit("return", None, self.id, self.remark)


def return_runs(now: int | None, requests: Sequence[ReturnRun]) -> Transaction[list[Returned | None]]:
    results: dict[int, Returned | None] = {}
    for number in sorted(
        range(len(requests)), key=lambda one: requests[one].id
    ):  # runs are locked in one order everywhere
        results[number] = yield from _return(now, requests[number])
    return [results[number] for number in range(len(requests))]


def _return(now: int | None, request: ReturnRun) -> Transaction[Returned | None]:
    """1. Lock and read the run. 2. Drop what it would have sent. 3. Move its steps before the next round, and add the remark. 4. Record
    who returned it, with the output. 5. Make it ready, in the order of its key.
    """
    rows = yield "find_run_to_redo", [(request.id,)]
    if not rows:
        return None
    run = RunToRedo(*rows[0])
    outputs = yield "output_to_return", [(run.seq,)]
    if run.state != "held" or not outputs or held_for_tampering(run.reason):
        return Returned(run.id, run.state, _not_for_its_output(run))
    at_work = yield "family_at_work", [(run.root, run.seq)]
    if at_work:
        words = f"shares its effects with run {at_work[0][1]}, which has not ended: wait for that run, or cancel it"
        return Returned(run.id, run.state, words)
    number = (yield "count_remarks", [(run.seq,)])[0][1] + 1
    again = "" if number == 1 else f" (return {number})"
    reason = f"returned by {request.by.name}{again}: {request.remark}"
    yield "discard_deliveries", [(now, run.seq, reason)]
    yield "abandon_staged", [(now, run.root, run.seq, reason)]
    yield "clear_state_fact", [(run.seq,)]
    yield "clear_trouble", [(run.seq,)]
    yield "end_round", [(run.seq,)]
    told = to_json({"text": request.remark, "by": request.by.name}).decode()
    yield "insert_remark", [(now, run.seq, f"{REMARK} {number}", told)]
    kept = to_json({"output": output_of(outputs[0][1])}).decode()
    held = to_json({"type": "Held", "message": run.reason}).decode()
    yield "insert_remedy", [(now, run.seq, "return", request.by.name, request.remark, kept, held)]
    yield "replay_run", [(now, run.seq, reason, None)]
    yield from queue([(run, run.seq)])
    yield from resolve_held(now, [HeldRun(run.seq, run.app, run.agent, run.id)], reason)
    return Returned(run.id, run.state, number=number)


def output_of(stored: str | None) -> object:
    """A stored output, to be kept with a person's decision about it."""
    return str(stored) if isinstance(stored, Tampered) else from_json(stored or "null")


def _not_for_its_output(run: RunToRedo) -> str:
    """Why a run has no output to return, and what to do instead."""
    if run.state == "done":
        return f"is done: only a held output can be returned; `wakeful replay {run.id} --again` does it once more"
    if run.state in {"dead", "denied", "cancelled"}:
        return f"is {run.state}: only a held output can be returned; `wakeful replay {run.id}` runs it again"
    if run.state != "held":
        return f"is {run.state}: only a held output can be returned"
    if held_for_tampering(run.reason):
        ways = how_to_go_on(run.id, effect_to_settle(run.reason))
        return f"is held for tampering, so nothing can be returned: {run.reason}. {ways}"
    if not run.holds_output:
        return "is held for an effect: `wakeful effects list` shows it, and how to settle it"
    return f"is held, but not for its output: `wakeful why {run.id}` shows why, and how to continue"
