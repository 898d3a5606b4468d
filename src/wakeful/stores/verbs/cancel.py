"""cancel: stops a run before it is done. A worker first undoes its effects; prepared deliveries and effects are dropped at the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from pydantic_core import from_json, to_json

from wakeful.errors import CancelAsked, ClaimLost
from wakeful.model import FINAL_RUN_STATES, Claim, RunOutcome, RunState
from wakeful.stores.lanes import Lanes
from wakeful.stores.request import ANYTHING, Actor, Audit, ByPerson, Heard, OfRun, Others, Ready, stands_for
from wakeful.stores.tampered import plain
from wakeful.stores.transaction import Count, Fetcher, Row, Transaction
from wakeful.stores.verbs.asking import withdraw_approvals
from wakeful.stores.verbs.halts import FAILED
from wakeful.stores.verbs.held import HeldRun, resolve_held
from wakeful.stores.verbs.keys import promote
from wakeful.stores.verbs.redo import queue
from wakeful.stores.verbs.refusal import Refusal, lost, refused
from wakeful.stores.verbs.waits import cancelled_with, tell_caller

if TYPE_CHECKING:
    from wakeful.stores.verbs.progress import FinishRun


@dataclass(slots=True)
class Cancelled:
    """The result. `now` is `cancelled` if the run ended at once, `ready` if a worker has to undo its effects, or `running` until its
    next step. `refused` says why nothing was changed.
    """

    run: str
    was: RunState
    now: RunState
    refused: str | None = None


@dataclass(slots=True)
class CancelRun(ByPerson[Cancelled | None]):
    """Stop a run, for a person or for the run that called it. A run without effects ends at once; for any other, a worker undoes the
    effects first. Open runs that it called are cancelled in the same transaction. None if there is no such run.

    With `claim`, only this attempt is meant: ClaimLost if it is over.
    """

    id: str
    claim: Claim | None = None
    undo: bool = True  # False: the run ends at once and its effects stay, because no worker has its code any more

    @property
    def process(self) -> str | None:
        return None if self.claim is None else self.claim.process

    fenced_by = stands_for("process")

    def lock_keys(self, lanes: Lanes) -> None:
        lanes.named.add(self.id)

    def follow(self, result: Cancelled | None, heard: Heard) -> None:
        if result is not None and result.refused is None:
            heard.stops(CancelAsked(result.run, self.by.name, self.note))

    def audit(self, result: Cancelled | None) -> Audit | None:
        """The request of the person was recorded before: a worker that obeys it records nothing more."""
        if result is None or result.refused is not None or self.claim is not None:
            return None
        return Audit("cancel", None, result.run, self.note)


@dataclass(slots=True)
class FinishCancelled(OfRun[None]):
    """End a cancelled run whose effects are undone, and drop what it had prepared. Refused if the claim is lost."""

    app: str
    reason: str
    outcome: RunOutcome

    ended = stands_for("claim")

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
        heard.stops(None)  # the runs that it called may run in this process


NOT_DONE = to_json({"type": "Cancelled", "message": "not done before its run was cancelled"}).decode()


class RunToCancel(NamedTuple):
    """A run before it is asked to stop."""

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
    failed: bool  # its effects are being undone because it failed


class StoppedRun(NamedTuple):
    """A run that has ended, for good or until a person replays it."""

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
    """1. Lock the runs and rows below it. 2. Read the run. 3. If it is running, ask its worker to stop it. If it has effects, ready it
    for a worker to undo them; a dead letter waits for its turn in the order of its key. Otherwise end it. 4. The same for the runs
    that it called.
    """
    for (seq,) in (yield "seq_of_run", [(request.id,)]):
        yield from lock_children(seq)
        yield from _lock_awaited(seq)
    rows = yield "find_run_to_cancel", [(request.id,)]
    if not rows:
        return None
    run = RunToCancel(*rows[0])
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
        yield way, [(now, run.seq, request.by.name, request.note, f"{reason}; its effects are undone first")]
        yield from resolve_held(now, [HeldRun(run.seq, run.app, run.agent, run.id)], reason)
        if run.state == "dead":
            yield from queue([(run, run.seq)])
        then = "ready"
    else:
        yield "cancel_now", [(now, run.seq, request.by.name, request.note, reason, _outcome_of(run))]
        yield from _wind_up(now, [StoppedRun(run.seq, run.id, run.root, run.app, run.agent, reason)])
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
        StoppedRun(one.claim.seq, one.claim.id, one.claim.root, one.app, one.claim.agent, one.reason) for one in ended
    ]
    yield from _wind_up(now, endings)
    for one in ended:
        yield from tell_caller(now, one.claim.seq, one.claim.id, "cancelled", one.reason)
        by = one.claim.cancelled[0] if one.claim.cancelled is not None else "its caller"
        yield from _cancel_children(now, one.claim.seq, one.claim.id, Actor(by, "worker"))
    return [gone.get((one.claim.seq, one.claim.token)) for one in requests]


def lock_children(seq: int) -> Transaction[None]:
    """Lock the runs that it called, deepest first: a run that ends locks itself first and then its caller."""
    for child, _ in (yield "children_at_work", [(seq,)]):
        yield from lock_children(child)
        yield from _lock_awaited(child)
        yield "lock_run", [(child,)]


def _lock_awaited(seq: int) -> Transaction[None]:
    """Lock its waits and approvals: an event or answer that arrives locks these first and then the run."""
    yield "lock_waits", [(seq,)]
    yield "lock_approvals", [(seq,)]


def let_go_of_keys(now: int | None, runs: Sequence[StoppedRun]) -> Transaction[None]:
    """Free the keys of these runs for those behind them. The keys are locked before the next runs are read."""
    lanes = sorted({(row[0], row[1], row[2]) for row in (yield "lanes_of_runs", [(run.seq,) for run in runs])})
    if lanes:
        yield Count("lock_keys", [(*lane, 0, 1) for lane in lanes])
        yield "let_go_of_place", [(run.seq,) for run in runs]
        yield from promote(now, lanes)


def said(operator: str, note: str | None) -> str:
    return f"cancelled by {operator}" + (f": {note}" if note else "")


def end_undone(now: int | None, requests: Sequence[FinishRun]) -> Transaction[None]:
    """End dead letters whose effects are undone, and drop what they had prepared. Those that block keep their keys."""
    ordered = sorted(requests, key=lambda one: one.claim.seq)
    yield "end_undoing", [(one.claim.seq,) for one in ordered]
    endings = [
        StoppedRun(one.claim.seq, one.claim.id, one.claim.root, one.claim.app, one.claim.agent, one.reason or "")
        for one in ordered
    ]
    yield from _drop_prepared(now, endings)
    for one in ordered:
        yield from _cancel_children(now, one.claim.seq, one.claim.id, Actor(by_failure(one.claim.id), "worker"))


def _wind_up(now: int | None, runs: Sequence[StoppedRun]) -> Transaction[None]:
    """Drop everything that these runs had prepared or waited for, and free their keys."""
    if not runs:
        return
    yield from _drop_prepared(now, runs)
    yield from let_go_of_keys(now, runs)


def _drop_prepared(now: int | None, runs: Sequence[StoppedRun]) -> Transaction[None]:
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


def _refusal(run: RunToCancel, *, undo: bool) -> str | None:
    if run.state == "dead":
        return None
    if run.state in FINAL_RUN_STATES:
        return f"is {run.state}: only a run that has not ended can be cancelled"
    if not undo:  # effects that were to be undone stay
        return None
    if run.failed:
        return f"failed, and its effects are already being undone: `wakeful why {run.id}` shows the progress"
    if run.cancel_by is not None:
        return f"is already being cancelled, by {run.cancel_by}: `wakeful why {run.id}` shows the progress"
    return None


def _not_beside(at_work: Sequence[Row]) -> str | None:
    """Runs of a family share effects, so an effect must not be undone while another run of the family uses it."""
    if not at_work:
        return None
    return f"shares its effects with run {at_work[0][1]}, which has not ended: wait for that run, or cancel it"


def by_failure(identifier: str) -> str:
    return f"run {identifier}{FAILED}"


def _outcome_of(run: RunToCancel) -> str:
    """A committed outcome stays; a held output is dropped."""
    told = (
        RunOutcome("cancelled")
        if run.outcome is None
        else RunOutcome(**{**from_json(run.outcome), "execution": "cancelled"})
    )
    if run.committed_at is None:
        told = RunOutcome("cancelled", told.verification)
    return to_json(told).decode()


async def failed_with(database: Fetcher, claim: Claim) -> str | None:
    """Why a run ends dead once its effects are undone; None if it is cancelled."""
    rows = await database.fetch("failed_with", claim.seq)
    return rows[0][0] if rows else None


async def cancelled_runs(database: Fetcher, app: str, process: str) -> list[tuple[str, str, str | None]]:
    """The runs of a process that are asked to stop, each with the actor and the note."""
    rows = await database.fetch("cancelled_runs", app, process)
    return [(row[0], row[1], row[2]) for row in rows]
