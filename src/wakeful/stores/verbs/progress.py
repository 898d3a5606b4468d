"""Writes of a run's owner: checkpoints, and the end of an attempt. All are fenced by the run's token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic_core import to_json

from wakeful.clock import Microseconds
from wakeful.errors import CancelAsked, ClaimLost, LockLost
from wakeful.model import VERIFIED, WENT_WELL, AttemptOutcome, Claim, Decision, RunOutcome, Step
from wakeful.stores.alarm import Alarm
from wakeful.stores.judging import Judge
from wakeful.stores.lanes import Lanes
from wakeful.stores.request import Heard, OfRun, Others, Ready, stands_for
from wakeful.stores.transaction import Call, Count, Fetcher, Transaction
from wakeful.stores.verbs.cancel import end_undone, lock_children
from wakeful.stores.verbs.circuits import closed_meanwhile, note_parked
from wakeful.stores.verbs.dead import under_open_keys
from wakeful.stores.verbs.ending import Ended, runs_ended
from wakeful.stores.verbs.failing import Streak, note_dead, went_well
from wakeful.stores.verbs.followers import lock_followed, wake_if_over
from wakeful.stores.verbs.halts import Place as HaltPlace
from wakeful.stores.verbs.halts import lifted_meanwhile, note_halted
from wakeful.stores.verbs.held import note_held
from wakeful.stores.verbs.locks import HeldLock, lost_locks
from wakeful.stores.verbs.misfits import Matches
from wakeful.stores.verbs.people import open_alarms
from wakeful.stores.verbs.refusal import Refusal, knows, lost, refused
from wakeful.stores.verbs.undoing import begin_undoing
from wakeful.stores.verbs.waits import Wait, register_waits, store_waiting_steps


@dataclass(slots=True)
class SaveSteps(OfRun[None]):
    """Store checkpoints of a run. Refused if the claim is lost, or with LockLost once one of the `locks` has another holder."""

    steps: list[Step]
    locks: tuple[HeldLock, ...] = ()

    plain = True
    worth_storing = True

    def size(self) -> tuple[int, int]:
        return 0, sum([len(step.result) for step in self.steps if step.result is not None])


@dataclass(slots=True)
class FinishRun(OfRun[None]):
    """End a run for good. Refused if the claim is lost or the run is asked to stop."""

    state: Literal["done", "dead", "denied", "cancelled"]
    output: str | None = None
    error: str | None = None
    reason: str | None = None
    outcome: RunOutcome = field(default_factory=RunOutcome)
    failed: bool = False
    expired: bool = False
    alarm: Alarm | None = None
    decision: Decision | None = None
    woken: list[tuple[str, str]] = field(default_factory=list)
    streak: Streak | None = None  # if dead
    undo: CancelAsked | None = None  # if dead: returned as a refusal if the run has effects, which must be undone first
    undone: bool = False  # if dead: its effects are undone, and what it had prepared is dropped
    well_again: bool = False  # if done: its agent was known to fail

    plain = True
    ended = stands_for("claim")

    def size(self) -> tuple[int, int]:
        return 0, 0 if self.output is None else len(self.output)

    def lock_keys(self, lanes: Lanes) -> None:
        if self.claim.key is not None:
            lanes.leave(self.claim, ends=self.state != "done")

    def readies(self) -> Ready | None:
        claim = self.claim
        return None if claim.key is None else Ready(claim.app, frozenset({claim.agent}))

    def alarming(self) -> bool:
        return self.alarm is not None or self.well_again


@dataclass(slots=True)
class LeaveRun(OfRun[None]):
    """Give a run back: `ready` at once; `waiting` until `delay` has passed (None: until the awaited event comes); `held` until a person
    decides (about an effect, unless `by_itself`); or `parked` until a circuit releases it or a halt is lifted. `clear` names failed steps to forget;
    `waits` are the events that it waits for. Refused if the claim is lost.
    """

    state: Literal["ready", "waiting", "held", "parked"]
    outcome: AttemptOutcome
    delay: Microseconds | None = 0
    reason: str | None = None
    error: str | None = None
    failed: bool = False
    steps: list[Step] = field(default_factory=list)
    clear: list[str] = field(default_factory=list)
    alarm: Alarm | None = None
    waits: list[Wait] = field(default_factory=list)
    matches: Matches | None = None
    woken: list[tuple[str, str]] = field(default_factory=list)
    alarmed: bool = False  # a condition exceeded its budget: an alarm is open
    by_itself: bool = False
    parked_for: tuple[str, str] | None = None  # the app and the dependency
    halted_for: HaltPlace | None = None  # the halt that it waits for
    follows: list[str] = field(default_factory=list)  # effects of other runs whose end it waits for

    ended = stands_for("claim")

    @property
    def _at_once(self) -> bool:
        return self.delay == 0 and self.state != "held"

    def readies(self) -> Ready | None:
        return Ready(None, frozenset({self.claim.agent})) if self._at_once else None

    def alarming(self) -> bool:
        return self.alarmed or self.alarm is not None

    def gives_back(self) -> bool:
        return self.outcome == "released"

    def tell(self, _: None, others: Others) -> None:
        others.all = others.all or (self._at_once and self.claim.id not in others.taken)

    def follow(self, _: None, heard: Heard) -> None:
        if self.waits:
            heard.waits(self.claim.seq)


@dataclass(slots=True)
class TransactStep(OfRun[Step]):
    """Call the user's function and save its result as the step of this key, in one transaction."""

    key: str
    function: Judge[[Any], Any]
    to_step: Judge[[Any], Step]
    locks: tuple[HeldLock, ...] = ()
    cause: str | None = None


@dataclass(slots=True)
class SaveTransacted(OfRun[Step]):
    """The checkpoint of a transaction that the user's function just executed on this connection (PostgreSQL).

    Returns the step, or the step that an earlier attempt of the same transaction recorded: then the caller rolls back its
    own. Refused if the claim or a lock is lost.
    """

    step: Step
    locks: tuple[HeldLock, ...] = ()


Nothing = ClaimLost | CancelAsked | None

# The stored outcomes of nearly all runs.
WELL = {outcome: to_json(outcome).decode() for outcome in (WENT_WELL, VERIFIED)}


async def recorded_step(database: Fetcher, claim: Claim, key: str) -> Step | None:
    """The step of a run that is done under this key."""
    rows = await database.fetch("load_steps", claim.seq)
    return next((step for row in rows if (step := Step(*row[1:])).key == key and step.state == "done"), None)


def step_row(claim: Claim, step: Step) -> tuple[object, ...]:
    return (
        claim.seq,
        claim.token,
        step.key,
        step.name,
        step.state,
        step.position,
        step.tries,
        step.attempt,
        step.arguments,
        step.result,
        step.error,
        step.started_at,
        step.finished_at,
    )


def save_steps(now: int | None, requests: Sequence[SaveSteps]) -> Transaction[list[Nothing | LockLost]]:
    refused = yield from lost_locks(requests)
    if refused:
        spared = [number for number in range(len(requests)) if number not in refused]
        saved = (yield from _save_steps(now, [requests[number] for number in spared])) if spared else []
        answers = dict(zip(spared, saved, strict=True))
        return [refused.get(number) or answers.get(number) for number in range(len(requests))]
    return (yield from _save_steps(now, requests))  # type: ignore[return-value]  # a list of fewer kinds


def _save_steps(now: int | None, requests: Sequence[SaveSteps]) -> Transaction[list[Nothing]]:  # noqa: ARG001 a verb's shape
    rows = [step_row(request.claim, step) for request in requests for step in request.steps]
    saved = yield Count("save_step", rows)
    if saved == len(rows):
        return [None] * len(requests)
    owned = yield "token_of_run", [(seq,) for seq in sorted({request.claim.seq for request in requests})]
    tokens = {row[0]: row[1] for row in owned if row[2] == "running"}
    return [None if tokens.get(one.claim.seq) == one.claim.token else lost(one.claim) for one in requests]


def transact_steps(now: int | None, requests: Sequence[TransactStep]) -> Transaction[list[Step | Exception]]:  # noqa: ARG001
    """Check the fence first: a function whose run or lock is lost must not be called. Then call it and save its checkpoint."""
    results: list[Step | Exception] = []
    refused = yield from lost_locks(requests)
    for number, request in enumerate(requests):
        if number in refused:
            results.append(refused[number])
            continue
        rows = yield "token_of_run", [(request.claim.seq,)]
        if not rows or rows[0][1] != request.claim.token or rows[0][2] != "running":
            results.append(lost(request.claim))
            continue
        value, error = yield Call(request.function, request.cause)
        if error is not None:
            results.append(error)
            continue
        step = request.to_step(value)
        yield Count("save_step", [step_row(request.claim, step)])
        results.append(step)
    return results


def save_transacted(
    now: int | None,  # noqa: ARG001
    requests: Sequence[SaveTransacted],
) -> Transaction[list[Step | ClaimLost | LockLost]]:
    """As save_steps, but a finished step stays as it is. The insert waits for an earlier attempt whose COMMIT is still in flight, so both
    can never be stored.
    """
    results: list[Step | ClaimLost | LockLost] = []
    refused = yield from lost_locks(requests)
    for number, request in enumerate(requests):
        if number in refused:
            results.append(refused[number])
            continue
        saved = yield "save_step_once", [step_row(request.claim, request.step)]
        if saved:
            results.append(request.step)
            continue
        owned = yield "token_of_run", [(request.claim.seq,)]
        if not owned or owned[0][1] != request.claim.token or owned[0][2] != "running":
            results.append(lost(request.claim))
            continue
        rows = yield "load_steps", [(request.claim.seq,)]
        results.append(next(step for row in rows if (step := Step(*row[1:])).key == request.step.key))
    return results


def finish_runs(now: int | None, requests: Sequence[FinishRun]) -> Transaction[list[Nothing]]:
    well = [request for request in requests if request.outcome in WELL]
    gone = (yield from _finish_well(now, well)) if well else {}
    if len(well) < len(requests):
        gone |= yield from _finish_otherwise(now, [one for one in requests if one.outcome not in WELL])
    for one in requests:
        if (one.claim.steps or one.claim.parent) and (one.claim.seq, one.claim.token) not in gone:
            one.woken = yield from runs_ended(now, [Ended(one.claim, one.state, one.output, one.error, one.reason)])
    well_again = [one.claim for one in requests if one.well_again and (one.claim.seq, one.claim.token) not in gone]
    if well_again:
        yield from went_well(now, well_again)
    return [gone.get((request.claim.seq, request.claim.token)) for request in requests]


def _finish_well(now: int | None, requests: Sequence[FinishRun]) -> Transaction[dict[tuple[int, int], Refusal]]:
    """The end of nearly all runs: only the output is stored, and no rows need to come back."""
    rows = [(now, one.claim.seq, one.claim.token, one.output, WELL[one.outcome]) for one in requests]
    rows.sort(key=lambda row: row[1])
    if (yield Count("finish_well", rows)) == len(rows):
        return {}
    return (yield from refused([request.claim for request in requests], []))


def _finish_otherwise(now: int | None, requests: Sequence[FinishRun]) -> Transaction[dict[tuple[int, int], Refusal]]:
    to_undo = [one for one in requests if one.undo is not None]
    undoing = (yield from begin_undoing(now, to_undo)) if to_undo else {}
    if undoing:
        requests = [one for one in requests if (one.claim.seq, one.claim.token) not in undoing]
        if not requests:
            return undoing
    for one in requests:
        if one.undone:
            yield from lock_children(one.claim.seq)
    ordered = sorted(requests, key=lambda request: request.claim.seq)
    finished = yield (
        "finish_run",
        [
            (
                now,
                request.claim.seq,
                request.claim.token,
                request.state,
                request.reason,
                request.output,
                request.error,
                to_json(request.outcome).decode(),
                int(request.failed),
                knows(request.claim),
            )
            for request in ordered
        ],
    )
    gone = yield from refused([request.claim for request in requests], finished)
    ended = [request for request in requests if (request.claim.seq, request.claim.token) not in gone]
    attempts = [
        (now, one.claim.seq, one.claim.token, one.claim.process, one.state, one.error, one.claim.claimed_at)
        for one in ended
        if one.state != "done"
    ]
    if attempts:
        yield "insert_attempt", attempts
    expired = [(request.claim.seq, request.reason) for request in ended if request.expired]
    if expired:
        yield "expire_admission", expired
    just_now = {row[0] for row in finished}  # a repetition after a lost COMMIT raised its alarm then
    decisions = [
        (
            now,
            one.claim.seq,
            one.claim.agent,
            one.decision.answer,
            one.decision.rule,
            one.decision.version,
            one.decision.reason,
            "effect",
            None,
            None,
            None,
        )
        for one in ended
        if one.decision is not None and one.claim.seq in just_now
    ]
    if decisions:
        yield "insert_run_decision", decisions
    raising = [(one, one.alarm) for one in ended if one.alarm is not None and one.claim.seq in just_now]
    if raising:
        alarms = yield from under_open_keys([alarm for _, alarm in raising])
        yield from open_alarms(now, alarms)
        raised = [
            (one.claim.seq, alarm.key) for (one, _), alarm in zip(raising, alarms, strict=True) if one.state == "dead"
        ]
        if raised:
            yield "note_alarm_of_run", raised
    dead = [one for one in ended if one.state == "dead" and one.claim.seq in just_now]
    if any(one.streak is not None for one in dead):
        yield from note_dead(now, dead)
    undone = [one for one in dead if one.undone]
    if undone:
        yield from end_undone(now, undone)
    return gone | undoing


def leave_runs(now: int | None, requests: Sequence[LeaveRun]) -> Transaction[list[Nothing]]:
    free = yield from closed_meanwhile(requests)
    free |= yield from lifted_meanwhile(requests)
    following = any(request.follows for request in requests)
    if following:
        yield from lock_followed(requests)
    steps = [step_row(request.claim, step) for request in requests for step in request.steps if step.state != "waiting"]
    if steps:
        yield Count("save_step", steps)
    yield from store_waiting_steps(requests)
    cleared = [(request.claim.seq, request.claim.token, key) for request in requests for key in request.clear]
    if cleared:
        yield "clear_step", cleared
    ordered = sorted(requests, key=lambda request: request.claim.seq)
    left = yield (
        "leave_run",
        [
            (
                now,
                request.claim.seq,
                request.claim.token,
                "ready" if request.claim.seq in free else request.state,
                free.get(request.claim.seq, request.reason),
                request.delay,
                request.error,
                int(request.failed),
                int(request.outcome == "released") or knows(request.claim),  # the next owner learns of the cancellation
            )
            for request in ordered
        ],
    )
    parked = [one for one in ordered if one.claim.seq not in free] if free else ordered
    yield from note_parked(parked)
    yield from note_halted(parked)
    gone = yield from refused([request.claim for request in requests], left)
    attempts = [
        (now, one.claim.seq, one.claim.token, one.claim.process, one.outcome, one.error, one.claim.claimed_at)
        for one in requests
        if (one.claim.seq, one.claim.token) not in gone
    ]
    if attempts:
        yield "insert_attempt", attempts
    just_now = {row[0] for row in left}
    yield from register_waits(now, [one for one in requests if one.claim.seq in just_now])
    if following:
        yield from wake_if_over(now, [one for one in requests if one.claim.seq in just_now])
    held = [(now, request.claim.root) for request in requests if request.state == "held" and not request.by_itself]
    if held:  # a person may have settled the effect since it was stored as held: then no alarm is needed
        just_now -= {row[3] for row in (yield "release_held_runs", held)}
    raising = [(one, one.alarm) for one in requests if one.alarm is not None and one.claim.seq in just_now]
    if raising:
        yield from open_alarms(now, [alarm for _, alarm in raising])
        yield from note_held([(one.claim.seq, alarm) for one, alarm in raising if one.state == "held"])
    by_themselves = [(now, one.claim.seq) for one in requests if one.by_itself and one.claim.seq in just_now]
    if by_themselves:
        yield "note_held_at", sorted(by_themselves, key=lambda row: row[1])
    return [gone.get((request.claim.seq, request.claim.token)) for request in requests]
