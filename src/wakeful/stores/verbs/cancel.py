"""cancel: a run stops before it is done. What it prepared is dropped at the end; what it did, a worker undoes before that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from pydantic_core import from_json, to_json

from wakeful.errors import CancelAsked, ClaimLost
from wakeful.model import FINAL_RUN_STATES, Claim, Outcome, RunState
from wakeful.stores.lanes import Lanes
from wakeful.stores.request import ANYTHING, Actor, Audit, ByPerson, Heard, OfRun, Others, Ready
from wakeful.stores.tampered import plain
from wakeful.stores.transaction import Count, Row, Transaction
from wakeful.stores.verbs.asking import withdraw_approvals
from wakeful.stores.verbs.held import HeldRun, resolve_held
from wakeful.stores.verbs.keys import promote
from wakeful.stores.verbs.redo import queue
from wakeful.stores.verbs.refusal import Refusal, lost, refused
from wakeful.stores.verbs.waits import cancelled_with, tell_caller

if TYPE_CHECKING:
    from wakeful.stores.verbs.progress import FinishRun


@dataclass(slots=True)
class Cancelled:
    """What became of it. `now`: `cancelled` at once; or `ready`, for a worker to undo what it did; or still `running`, until
    its next step. `refused` says why nothing was changed.
    """

    run: str
    was: RunState
    now: RunState
    refused: str | None = None


@dataclass(slots=True)
class CancelRun(ByPerson[Cancelled | None]):
    """A person, or the run that called it, wants a run to stop. One that never did anything outside is over at once; of any
    other a worker undoes what it did. The runs that it called and that are not over are cancelled with it.

    With `claim` only this attempt of it is meant, by whoever has it: ClaimLost if that is over.
    """

    id: str
    claim: Claim | None = None
    undo: bool = True  # False: it is over at once, and what it did stays: no worker has its code any more

    @property
    def process(self) -> str | None:
        return None if self.claim is None else self.claim.process

    fenced = True

    def lock_keys(self, lanes: Lanes) -> None:
        lanes.named.add(self.id)

    def follow(self, result: Cancelled | None, heard: Heard) -> None:
        if result is not None and result.refused is None:
            heard.stops(CancelAsked(result.run, self.by.name, self.note))

    def audit(self, result: Cancelled | None) -> Audit | None:
        """Who asked a run to stop was written down then: the worker that obeys writes nothing more."""
        if result is None or result.refused is not None or self.claim is not None:
            return None
        return Audit("cancel", None, result.run, self.note)


@dataclass(slots=True)
class FinishCancelled(OfRun[None]):
    """A run that was to stop has undone what it did: it is over. Nothing that it had prepared leaves any more."""

    app: str
    reason: str
    outcome: Outcome

    ends_a_run = True

    def lock_keys(self, lanes: Lanes) -> None:
        if self.claim.key is not None:
            lanes.leave(self.claim, ends=True)

    def readies(self) -> Ready | None:
        return ANYTHING

    def alarming(self) -> bool:
        return True

    def tell(self, _: None, others: Others) -> None:
        others.all = True  # runs that it called may have been asked to stop

    def follow(self, _: None, heard: Heard) -> None:
        heard.stops(None)  # the runs that it called may run here


NOT_DONE = to_json({"type": "Cancelled", "message": "not done before its run was cancelled"}).decode()


class Found(NamedTuple):
    """A run as it is before it is asked to stop."""

    seq: int
    id: str
    root: str
    app: str
    agent: str
    state: RunState
    reason: str | None
    outcome: str | None
    committed_at: int | None
    cancel_by: str | None
    token: int
    key: str | None
    error: str | None
    failed: bool  # what it did is being undone because it failed


class Ending(NamedTuple):
    """A run that is over now, for good or until a person replays it."""

    seq: int
    id: str
    root: str
    app: str
    agent: str
    reason: str


def cancel_runs(now: int | None, requests: Sequence[CancelRun]) -> Transaction[list[Cancelled | ClaimLost | None]]:
    results: list[Cancelled | ClaimLost | None] = []
    for request in requests:
        cancelled = yield from _cancel(now, request)
        results.append(cancelled)
    return results


def _cancel(now: int | None, request: CancelRun) -> Transaction[Cancelled | ClaimLost | None]:
    """1. Lock what is below it. 2. What is it now? 3. If it runs, its owner is asked. If it did something outside, a worker is; a
    dead letter waits for its turn in the order of its key. Else it is over. 4. The same for the runs that it called.
    """
    for (seq,) in (yield "seq_of_run", [(request.id,)]):
        yield from lock_children(seq)
        yield from _lock_awaited(seq)
    rows = yield "find_run_to_cancel", [(request.id,)]
    if not rows:
        return None
    run = Found(*rows[0])
    if request.claim is not None and (run.token, run.state) != (request.claim.token, "running"):
        return lost(request.claim)
    at_work = (yield "family_at_work", [(run.root, run.seq)]) if run.state == "dead" else []
    if (why := _refusal(run, undo=request.undo) or _not_beside(at_work)) is not None:
        return Cancelled(run.id, run.state, run.state, why)
    ended_with = to_json({"type": "Held", "message": run.reason}).decode() if run.state == "held" else plain(run.error)
    yield "insert_remedy", [(now, run.seq, "cancel", request.by.name, request.note, None, ended_with)]
    reason = said(request.by.name, request.note)
    if run.state == "running":
        yield "ask_to_stop", [(now, run.seq, request.by.name, request.note)]
        then: RunState = "running"
    elif request.undo and (yield "done_outside", [(run.root, run.seq)]):
        way = "revive_to_undo" if run.state == "dead" else "stop_to_undo"
        yield way, [(now, run.seq, request.by.name, request.note, f"{reason}; what it did is undone first")]
        yield from resolve_held(now, [HeldRun(run.seq, run.app, run.agent, run.id)], reason)
        if run.state == "dead":
            yield from queue([(run, run.seq)])
        then = "ready"
    else:
        yield "cancel_now", [(now, run.seq, request.by.name, request.note, reason, _outcome_of(run))]
        yield from _wind_up(now, [Ending(run.seq, run.id, run.root, run.app, run.agent, reason)])
        yield from tell_caller(now, run.seq, run.id, "cancelled", reason)
        then = "cancelled"
    yield from _cancel_children(now, run.seq, run.id, request.by, undo=request.undo)
    return Cancelled(run.id, run.state, then)


def finish_cancelled(now: int | None, requests: Sequence[FinishCancelled]) -> Transaction[list[Refusal | None]]:
    ordered = sorted(requests, key=lambda one: one.claim.seq)
    for one in ordered:
        yield from lock_children(one.claim.seq)
    rows = [
        (now, one.claim.seq, one.claim.token, "cancelled", one.reason, None, None, to_json(one.outcome).decode(), 0, 1)
        for one in ordered
    ]
    finished = yield "finish_run", rows
    gone = yield from refused([one.claim for one in ordered], finished)
    over = {row[0] for row in finished}
    ended = [one for one in ordered if one.claim.seq in over]
    attempts = [
        (now, one.claim.seq, one.claim.token, one.claim.process, "cancelled", None, one.claim.claimed_at)
        for one in ended
    ]
    if attempts:
        yield "insert_attempt", attempts
    endings = [
        Ending(one.claim.seq, one.claim.id, one.claim.root, one.app, one.claim.agent, one.reason) for one in ended
    ]
    yield from _wind_up(now, endings)
    for one in ended:
        yield from tell_caller(now, one.claim.seq, one.claim.id, "cancelled", one.reason)
        by = one.claim.cancelled[0] if one.claim.cancelled is not None else "its caller"
        yield from _cancel_children(now, one.claim.seq, one.claim.id, Actor(by, "worker"))
    return [gone.get((one.claim.seq, one.claim.token)) for one in requests]


def lock_children(seq: int) -> Transaction[None]:
    """Runs that it called, and theirs before them: one that ends has itself, and then tells its caller."""
    for child, _ in (yield "children_at_work", [(seq,)]):
        yield from lock_children(child)
        yield from _lock_awaited(child)
        yield "lock_run", [(child,)]


def _lock_awaited(seq: int) -> Transaction[None]:
    """What it waits for: whoever brings that has it first, and then the run."""
    yield "lock_waits", [(seq,)]
    yield "lock_approvals", [(seq,)]


def let_go_of_keys(now: int | None, runs: Sequence[Ending]) -> Transaction[None]:
    """Those behind them may go. The keys are locked before anybody looks who is next."""
    lanes = sorted({(row[0], row[1], row[2]) for row in (yield "lanes_of_runs", [(run.seq,) for run in runs])})
    if lanes:
        yield Count("lock_keys", [(*lane, 0, 1) for lane in lanes])
        yield "let_go_of_place", [(run.seq,) for run in runs]
        yield from promote(now, lanes)


def said(operator: str, note: str | None) -> str:
    return f"cancelled by {operator}" + (f": {note}" if note else "")


def end_undone(now: int | None, requests: Sequence[FinishRun]) -> Transaction[None]:
    """Dead letters whose effects are undone: nothing that they had prepared happens any more. Those that block keep their keys."""
    ordered = sorted(requests, key=lambda one: one.claim.seq)
    yield "end_undoing", [(one.claim.seq,) for one in ordered]
    endings = [
        Ending(one.claim.seq, one.claim.id, one.claim.root, one.claim.app, one.claim.agent, one.reason or "")
        for one in ordered
    ]
    yield from _drop_prepared(now, endings)
    for one in ordered:
        yield from _cancel_children(now, one.claim.seq, one.claim.id, Actor(by_failure(one.claim.id), "worker"))


def _wind_up(now: int | None, runs: Sequence[Ending]) -> Transaction[None]:
    """Nothing of them happens any more, and nobody need say anything to them."""
    if not runs:
        return
    yield from _drop_prepared(now, runs)
    yield from let_go_of_keys(now, runs)


def _drop_prepared(now: int | None, runs: Sequence[Ending]) -> Transaction[None]:
    yield "discard_deliveries", [(now, run.seq, run.reason) for run in runs]
    yield "abandon_staged", [(now, run.root, run.seq, run.reason) for run in runs]
    yield "withdraw_held", [(now, run.root, run.seq, run.reason) for run in runs]
    yield "give_up_retrying", [(now, run.root, run.seq, NOT_DONE) for run in runs]
    yield from withdraw_approvals(now, [(run.seq, run.reason) for run in runs])
    yield "close_waits", [(run.seq,) for run in runs]
    yield from resolve_held(now, [HeldRun(run.seq, run.app, run.agent, run.id) for run in runs], runs[0].reason)


def _cancel_children(now: int | None, seq: int, identifier: str, by: Actor, *, undo: bool = True) -> Transaction[None]:
    for _, child in (yield "children_at_work", [(seq,)]):
        yield from _cancel(now, CancelRun(child, undo=undo, by=by, note=cancelled_with(identifier)))


def _refusal(run: Found, *, undo: bool) -> str | None:
    if run.state == "dead":
        return None
    if run.state in FINAL_RUN_STATES:
        return f"is {run.state}: only what is not over can be cancelled"
    if not undo:  # whatever was to be undone stays done
        return None
    if run.failed:
        return f"failed, and what it did is being undone already: `wakeful why {run.id}` tells how far that is"
    if run.cancel_by is not None:
        return f"is being cancelled already, by {run.cancel_by}: `wakeful why {run.id}` tells how far that is"
    return None


def _not_beside(at_work: Sequence[Row]) -> str | None:
    """Runs of a family share their effects: what one of them found is not undone under its hands."""
    if not at_work:
        return None
    return f"shares its effects with run {at_work[0][1]}, which is not over yet: wait for that one, or cancel it"


def by_failure(identifier: str) -> str:
    return f"run {identifier}, which failed"


def _outcome_of(run: Found) -> str:
    """What was committed stays; an output that was held is dropped."""
    told = (
        Outcome("cancelled") if run.outcome is None else Outcome(**{**from_json(run.outcome), "execution": "cancelled"})
    )
    if run.committed_at is None:
        told = Outcome("cancelled", told.verification)
    return to_json(told).decode()
