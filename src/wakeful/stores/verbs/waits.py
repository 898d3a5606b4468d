"""Durable waits: registered when a run is put away. A transaction that brings the awaited thing ends the step and wakes the run.

    a run leaves ──► its waiting steps are stored ──► check: is it already there?  (an event, the end of a child, an answer)
    an event, the end of a child, an answer comes ──► the step is ended ──► the run is ready

An event ends at most one wait of a run, and waits of any number of runs. If a wait's condition cannot be evaluated for an event, because a
field is missing or of another type, the event is a misfit: the wait continues, and the last misfit is stored with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pydantic_core import from_json, to_json

from wakeful.cel import Match
from wakeful.errors import ClaimLost
from wakeful.model import FINAL_RUN_STATES, Claim, Step
from wakeful.stores.request import OfRun, Request
from wakeful.stores.tampered import Tampered
from wakeful.stores.transaction import Row, Transaction
from wakeful.stores.verbs.asking import expire_approval, withdraw_approvals
from wakeful.stores.verbs.misfits import DATA_OF_MISFIT, Matches, Misfits, note_misfits
from wakeful.stores.verbs.refusal import lost

if TYPE_CHECKING:
    from wakeful.stores.verbs.progress import LeaveRun


@dataclass(frozen=True, slots=True)
class Wait:
    """An event that a run waits for. `key` is its step; subject '' means any; `variables` has the condition's variables, as JSON."""

    key: str
    type: str
    subject: str = ""
    condition: str | None = None
    variables: str | None = None


@dataclass(slots=True)
class EndWait(OfRun[Step]):
    """End a wait that timed out: the step fails with `error`, unless the awaited thing is there after all. Refused if the claim is lost."""

    step: Step
    error: str
    wait: Wait | None = None
    matches: Matches | None = None
    alarmed: bool = False  # as in LeaveRun

    def alarming(self) -> bool:
        return self.alarmed


@dataclass(slots=True)
class LookAgain(Request[None]):
    """Recheck waits of runs that were registered while events were being accepted. For the runs in `rechecked`, all of these events are
    stored by now.
    """

    runs: list[int]
    rechecked: frozenset[int] = frozenset()
    matches: Matches | None = None
    woken: list[tuple[str, str]] = field(default_factory=list)
    alarmed: bool = False  # as in LeaveRun

    def alarming(self) -> bool:
        return self.alarmed


Woken = list[tuple[str, str]]
GONE = "it has ended and is no longer stored (retention)"
LOOKED_AT_ONCE = 100  # events, the limit of the queries


def waiting_steps(request: LeaveRun) -> list[Step]:
    return [step for step in request.steps if step.state == "waiting"]


def store_waiting_steps(requests: Sequence[LeaveRun]) -> Transaction[None]:
    """Before the runs themselves are moved: an answer that comes at the same time waits for these rows. A transaction that already has
    the lock of an earlier wait may be ending it at this moment.
    """
    before = [
        one.claim.seq for one in requests if one.waits and any(step.state == "waiting" for step in one.claim.steps)
    ]
    if before:
        yield "lock_waits", [(seq,) for seq in sorted(before)]
    rows = [step_row(request.claim, step) for request in requests for step in waiting_steps(request)]
    if rows:
        yield "register_step", sorted(rows, key=lambda row: (row[0], row[2]))


def register_waits(now: int | None, requests: Sequence[LeaveRun]) -> Transaction[None]:
    """After the runs have been moved: register their waits. If the awaited thing is already there, wake the run at once."""
    waiting = [one for one in requests if one.state == "waiting" and one.error is None and waiting_steps(one)]
    rows = [
        (now, one.claim.seq, wait.key, wait.type, wait.subject, wait.condition, wait.variables)
        for one in waiting
        for wait in one.waits
    ]
    given_up = [
        (one.claim.seq, step.key)
        for one in waiting
        for step in one.claim.steps
        if step.state == "waiting" and step.key not in {asked.key for asked in one.steps}
    ]
    # The handler no longer waits for these, or has not reached them again: then it will find what came meanwhile.
    if given_up:
        yield "close_wait", given_up
    if rows:
        yield "insert_wait", rows
    for request in waiting:
        yield from look_for_children(now, request.claim.seq, waiting_steps(request))
        if request.waits:
            _, alarmed = yield from look_for_events(now, request.claim.seq, request.matches)
            request.alarmed |= alarmed
        keys = [(request.claim.seq, step.key) for step in waiting_steps(request)]
        if (yield "answered_steps", keys):
            request.woken = yield from wake(
                now, request.claim.seq, "the event or answer that it waits for is already there"
            )


def look_for_children(now: int | None, run: int, steps: Sequence[Step]) -> Transaction[None]:
    """Answer calls of runs that have ended without telling this caller, because the called run existed, or had ended, before the call. If
    it was removed, its result is not known any more.
    """
    for step in steps:
        child = from_json(step.result or "{}").get("child")
        if child is None:
            continue
        found = yield "end_of_run", [(child,)]
        state, output, error, reason = found[0] if found else ("gone", None, None, GONE)
        if not found or state in FINAL_RUN_STATES:
            yield "answer_step", [(now, run, step.key, *answer_of(child, state, output, error, reason))]


def look_for_events(now: int | None, run: int, matches: Matches | None) -> Transaction[tuple[bool, bool]]:
    """The first matching event for each open wait of a run, among those accepted since the run was made. Returns whether one was found,
    and whether an alarm was opened.
    """
    found = False
    misfits = Misfits()
    for key, app, type_, subject, condition, variables in (yield "waits_of_run", [(run,)]):
        skip: int | None = 0
        while skip is not None:
            if subject:
                events = yield "awaited_about", [(app, type_, subject, skip, run)]
            else:
                events = yield "awaited", [(app, type_, skip, run)]
            skip = skip + LOOKED_AT_ONCE if len(events) == LOOKED_AT_ONCE else None
            for seq, envelope in events:
                if isinstance(envelope, Tampered):
                    continue  # a tampered event ends no wait
                if not fitting(matches, condition, variables, envelope, (run, key, seq), misfits):
                    continue
                if (yield "take_event", [(run, key, seq)]):
                    yield "answer_step", [(now, run, key, "done", envelope, None)]
                    yield "accept_unmatched", [(seq,)]
                    found = True
                skip = None
                break
    return found, (yield from note_misfits(now, misfits))


def fitting(
    matches: Matches | None,
    condition: str | None,
    variables: str | None,
    envelope: str,
    place: tuple[int, str, int],
    misfits: Misfits,
) -> bool:
    """Whether an event meets the condition of a wait. `place` is (run, key, seq of the event), to record a misfit."""
    if condition is None:
        return True
    if matches is None:
        return False
    if isinstance(variables, Tampered):
        misfits.add(*place, Match(matched=False, reason=str(variables.finding), misfit=True))
        return False
    match = matches(condition, variables, envelope)
    if match.misfit:
        misfits.add(*place, match)
    return match.matched


def wake(now: int | None, run: int, reason: str) -> Transaction[Woken]:
    return [(row[0], row[1]) for row in (yield "wake_run", [(now, run, reason)])]


def bring_events(
    now: int | None, app: str, events: Sequence[tuple[int, str, str | None, str]], matches: Matches | None
) -> Transaction[tuple[Woken, set[int], bool]]:
    """Match new events with waits. `events` is (seq, type, subject, envelope). Returns the runs that were woken, the events that ended a
    wait, and whether an alarm was opened.
    """
    woken: Woken = []
    taken: set[int] = set()
    misfits = Misfits()
    for seq, type_, subject, envelope in events:
        served: set[int] = set()
        for run, key, condition, variables in (yield "find_waits", [(app, type_, subject or "")]):
            if run in served:
                continue  # an event ends one wait of a run
            if not fitting(matches, condition, variables, envelope, (run, key, seq), misfits):
                continue
            if not (yield "take_event", [(run, key, seq)]):
                continue
            served.add(run)
            taken.add(seq)
            yield "answer_step", [(now, run, key, "done", envelope, None)]
            woken += yield from wake(now, run, f"event {type_} came")
    if taken:
        yield "accept_unmatched", [(seq,) for seq in sorted(taken)]
    return woken, taken, (yield from note_misfits(now, misfits))


def answer_of(
    child: str, state: str, output: str | None, error: str | None, reason: str | None
) -> tuple[str, str | None, str | None]:
    """The end of the caller's step for the end of a child: (state, result, error)."""
    if isinstance(output, Tampered):
        failed = _failed(f"run {child} is {state}, and its output was {output.finding}")
        return "failed", None, to_json(failed).decode()
    if state == "done":
        return "done", output, None
    told = from_json(error) if error else {}
    why = f"{told['type']}: {told['message']}" if "message" in told else reason or "no reason was given"
    failed = _failed(f"run {child} is {state}: {why}", told.get("traceback", ""))
    return "failed", None, to_json(failed).decode()


def not_taken(event: str, became: Sequence[Row]) -> str:
    """The error of a call that led to no run."""
    agent, state, why = became[0] if became else ("?", "not known any more", None)
    message = f"agent {agent} did not take it: it is {state}" + (f", {why}" if why else "")
    return to_json(_failed(f"{message}. `wakeful why {event}` tells more")).decode()


def _failed(message: str, traceback: str = "") -> dict[str, str]:
    return {
        "type": "ChildFailed",
        "kind": "wakeful.errors:ChildFailed",
        "message": message,
        "failure": "persistent",
        "traceback": traceback,
    }


def tell_parents(
    now: int | None, ended: Sequence[tuple[Claim, str, str | None, str | None, str | None]]
) -> Transaction[Woken]:
    """Tell callers that the runs they called have ended: (the child's claim, its state, output, error, reason)."""
    woken: Woken = []
    for claim, state, output, error, reason in ended:
        if claim.parent is not None:
            callers = [claim.parent] if claim.gathered == 1 else (yield "caller_of_run", [(claim.seq,)])
            answer = answer_of(claim.id, state, output, error, reason)
            woken += yield from tell(now, callers, claim.id, state, answer)
    return woken


def tell_joined(
    now: int | None, ended: Sequence[tuple[Claim, str, str | None, str | None, str | None]]
) -> Transaction[Woken]:
    """As tell_parents, for callers that joined a run which an earlier event of the same key had started."""
    woken: Woken = []
    by_seq = {one[0].seq: one for one in ended}
    if not by_seq:
        return woken
    for seq, parent, key in (yield "callers_by_key", [(one,) for one in sorted(by_seq)]):
        claim, state, output, error, reason = by_seq[seq]
        answer = answer_of(claim.id, state, output, error, reason)
        woken += yield from tell(now, [(parent, key)], claim.id, state, answer)
    return woken


def tell(
    now: int | None,
    callers: Sequence[Sequence[Any]],
    child: str,
    state: str,
    answer: tuple[str, str | None, str | None],
) -> Transaction[Woken]:
    """End the steps that wait for a run: (run, key) of each."""
    woken: Woken = []
    for seq, key in callers:
        if (yield "answer_step", [(now, seq, key, *answer)]):
            woken += yield from wake(now, seq, f"run {child}, which it called, is {state}")
    return woken


def tell_caller(now: int | None, seq: int, identifier: str, state: str, reason: str) -> Transaction[Woken]:
    """As tell_parents, for a run that ended without a worker: cancelled, discarded or superseded."""
    callers = yield "caller_of_run", [(seq,)]
    return (yield from tell(now, callers, identifier, state, answer_of(identifier, state, None, None, reason)))


def cancelled_with(caller: str) -> str:
    """The note of a run that was cancelled with its caller; also used to find it again."""
    return f"run {caller}, which called it, was cancelled"


def close_waits(now: int | None, claims: Sequence[Claim]) -> Transaction[None]:
    """Close the waits of ended runs. Runs that never waited have none."""
    seqs = [claim.seq for claim in claims if any(step.state == "waiting" for step in claim.steps)]
    if seqs:
        yield "close_waits", [(seq,) for seq in seqs]
        yield from withdraw_approvals(now, [(seq, "its run has ended") for seq in seqs])


def end_waits(now: int | None, requests: Sequence[EndWait]) -> Transaction[list[Step | ClaimLost]]:
    """Check whether the awaited thing is there after all; otherwise fail the step with the given error."""
    results: list[Step | ClaimLost] = []
    for request in requests:
        claim, key = request.claim, request.step.key
        owned = yield "token_of_run", [(claim.seq,)]
        if not owned or owned[0][1] != claim.token or owned[0][2] != "running":
            results.append(lost(claim))
            continue
        if request.wait is not None:
            yield "lock_waits", [(claim.seq,)]
        elif "approval" in from_json(request.step.result or "{}"):
            yield "lock_approvals", [(claim.seq,)]
        yield "register_step", [step_row(claim, request.step)]
        if request.wait is not None:
            wait = request.wait
            yield "insert_wait", [(now, claim.seq, key, wait.type, wait.subject, wait.condition, wait.variables)]
            _, alarmed = yield from look_for_events(now, claim.seq, request.matches)
            request.alarmed |= alarmed
        yield from look_for_children(now, claim.seq, [request.step])
        misfits = (yield "misfits_of_run", [(claim.seq,)]) if request.wait is not None else []
        error = late_with(request.error, {place: noted for place, *noted in misfits}.get(key))
        if (yield "end_step", [(now, claim.seq, claim.token, key, error)]):
            yield "close_wait", [(claim.seq, key)]
            yield from expire_approval(now, claim.seq, key)
        rows = yield "step_of_run", [(claim.seq, key)]
        results.append(Step(*rows[0][1:]))
    return results


def late_with(error: str, misfit: Sequence[str] | None) -> str:
    """The error of a wait that timed out, with the event that was nearly the awaited one. Its data is left out, because an error may be
    logged.
    """
    if misfit is None:
        return error
    event, reason = misfit
    told = from_json(error)
    problem = reason.partition(DATA_OF_MISFIT)[0]
    told["message"] += f". Event {event} came, but its match could not be determined: {problem}"
    return to_json(told).decode()


def look_again(now: int | None, requests: Sequence[LookAgain]) -> Transaction[list[None]]:
    """Check waits that were registered while events were being accepted: these may be stored by now."""
    for request in requests:
        for run in request.runs:
            found, alarmed = yield from look_for_events(now, run, request.matches)
            request.alarmed |= alarmed
            if found:
                request.woken += yield from wake(now, run, "the event that it waits for came at the same moment")
            if run in request.rechecked:
                yield "mark_rechecked", [(run,)]
    return [None] * len(requests)


def step_row(claim: Claim, step: Step) -> tuple[object, ...]:
    return (
        claim.seq,
        claim.token,
        step.key,
        step.name,
        step.position,
        step.attempt,
        step.arguments,
        step.result,
        step.started_at,
        step.finished_at,
    )
