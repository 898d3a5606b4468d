"""The commit of a run: its output, deliveries, staged effects and state are stored together, or held together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic_core import from_json, to_json

from wakeful.errors import CancelAsked, ClaimLost, StateChanged
from wakeful.model import Claim, Delivery, Effect, RunOutcome
from wakeful.stores.alarm import Alarm
from wakeful.stores.lanes import Lanes
from wakeful.stores.request import Audit, ByPerson, Heard, OfRun, Ready, stands_for
from wakeful.stores.tampered import effect_to_settle, held_for_tampering, how_to_go_on
from wakeful.stores.transaction import Count, Transaction
from wakeful.stores.verbs.editing import MEANWHILE, EditedOutput, edit_output, output_to_edit
from wakeful.stores.verbs.effects import first_columns
from wakeful.stores.verbs.ending import Ended, runs_ended
from wakeful.stores.verbs.failing import went_well
from wakeful.stores.verbs.held import HeldRun, note_held, resolve_held
from wakeful.stores.verbs.people import open_alarms, resolve_alarms
from wakeful.stores.verbs.redo import Redone
from wakeful.stores.verbs.refusal import refused


@dataclass(slots=True)
class StateChange:
    """The state that a run saves for its agent, if the version is still the one that it read."""

    app: str
    agent: str
    key: str
    version: int
    value: str


@dataclass(slots=True)
class CommitRun(OfRun[None]):
    """Commit a run's output, deliveries and staged effects in one transaction. `then`: the run is done; or it stays running to release
    staged effects; or it is held, and everything is stored for a person to review but nothing leaves.

    Refused with StateChanged if the agent's state has another version by now, or if the claim is lost; then nothing is stored.
    """

    app: str
    output: str
    outcome: RunOutcome
    then: Literal["done", "running", "held"] = "done"
    deliveries: list[Delivery] = field(default_factory=list)
    effects: list[Effect] = field(default_factory=list)
    state: StateChange | None = None
    reason: str | None = None
    alarm: Alarm | None = None
    dropped: list[str] = field(default_factory=list)  # effects staged by an earlier commit and not staged again
    resolves: str | None = None  # the key of an alarm that this commit resolves
    woken: list[tuple[str, str]] = field(default_factory=list)
    well_again: bool = False  # as in FinishRun

    @property
    def ended(self) -> Claim | None:
        """A run that goes on to release its staged effects has not ended."""
        return None if self.then == "running" else self.claim

    def size(self) -> tuple[int, int]:
        characters = len(self.output) + sum([len(one.message) for one in self.deliveries])
        return len(self.deliveries) + len(self.effects), characters

    def lock_keys(self, lanes: Lanes) -> None:
        if self.claim.key is not None:
            lanes.leave(self.claim, ends=self.then != "done")

    def readies(self) -> Ready | None:
        claim = self.claim
        return None if claim.key is None else Ready(claim.app, frozenset({claim.agent}))

    def alarming(self) -> bool:
        return self.alarm is not None or self.well_again


@dataclass(slots=True)
class CloseRun(OfRun[None]):
    """Finish a committed run that has released all its staged effects. Refused if the claim is lost."""

    outcome: RunOutcome
    output: str | None = None  # for the run that called it
    woken: list[tuple[str, str]] = field(default_factory=list)
    well_again: bool = False  # as in FinishRun

    ended = stands_for("claim")

    def lock_keys(self, lanes: Lanes) -> None:
        if self.claim.key is not None:
            lanes.leave(self.claim, ends=False)

    def readies(self) -> Ready | None:
        claim = self.claim
        return None if claim.key is None else Ready(claim.app, frozenset({claim.agent}))

    def alarming(self) -> bool:
        return self.well_again


@dataclass(slots=True)
class ReleaseRun(ByPerson[Redone | None]):
    """A person releases a held output, unchanged or edited. None if there is no such run; refused if no output is held, or another
    one than the person edited.
    """

    id: str
    edited: EditedOutput | None = None

    def follow(self, _: Redone | None, heard: Heard) -> None:
        heard.deliveries()

    def audit(self, result: Redone | None) -> Audit | None:
        return None if result is None or result.refused is not None else Audit("release", None, self.id, self.note)


Refusal = ClaimLost | CancelAsked | StateChanged | None
Place = tuple[int, int]


def commit_runs(now: int | None, requests: Sequence[CommitRun]) -> Transaction[list[Refusal]]:
    """1. Compare and set the states; a run that loses stores nothing. 2. Lock the runs. From here on no run can be asked to stop, and a
    run that was asked before stores nothing. 3. Insert deliveries and staged effects, each fenced by its run's token. 4. Update the
    runs: done, still running, or held. A run that lost its claim wrote nothing in any step, because each statement requires a
    running run with its token.
    """
    results: dict[Place, Refusal] = {}
    saved = yield from _save_states(now, requests, results)
    going = sorted((one for one in requests if _place(one.claim) not in results), key=lambda one: one.claim.seq)
    locked = {row[0] for row in (yield "lock_to_commit", [(one.claim.seq, one.claim.token) for one in going])}
    if len(locked) < len(going):
        refusals = yield from refused([one.claim for one in going], [(seq,) for seq in locked])
        for place, refusal in refusals.items():
            if place in saved:
                raise refusal  # asked to stop after its state was saved: roll back, and retry each request by itself
            results[place] = refusal
        going = [one for one in going if one.claim.seq in locked]
    deliveries = [_delivery_row(now, one, delivery) for one in going for delivery in one.deliveries]
    if deliveries:
        again = [
            (one.id, request.claim.seq, request.claim.token)
            for request in going
            for one in request.deliveries
            if not request.claim.first_start
        ]
        if again:
            yield "replace_dropped", again
        yield Count("insert_delivery", deliveries)
    effects = sorted(_staged_row(now, one, number) for one in going for number in range(len(one.effects)))
    if effects:
        yield Count("stage_effect", effects)
    dropped = [(now, effect, one.claim.seq, one.claim.token) for one in going for effect in sorted(one.dropped)]
    if dropped:
        yield "drop_effect", dropped
    yield from _move_runs(now, going, results)
    for one in going:
        if one.then == "done" and results.get(_place(one.claim)) is None:
            one.woken = yield from runs_ended(now, [Ended(one.claim, "done", one.output)])
    well_again = [
        one.claim for one in going if one.well_again and one.then == "done" and results.get(_place(one.claim)) is None
    ]
    if well_again:
        yield from went_well(now, well_again)
    raising = [(one, one.alarm) for one in going if one.alarm is not None and results.get(_place(one.claim)) is None]
    if raising:
        yield from open_alarms(now, [alarm for _, alarm in raising])
        yield from note_held([(one.claim.seq, alarm) for one, alarm in raising if one.then == "held"])
    over = [one.resolves for one in going if one.resolves is not None and results.get(_place(one.claim)) is None]
    if over:
        yield from resolve_alarms(now, over)
    return [results.get(_place(one.claim)) for one in requests]


def _save_states(
    now: int | None, requests: Sequence[CommitRun], results: dict[Place, Refusal]
) -> Transaction[set[Place]]:
    """Save the states. Returns the runs whose state was saved."""
    saved: set[Place] = set()
    for request in requests:
        change = request.state
        if change is None or request.then == "held":
            continue
        claim = request.claim
        row = (now, change.app, change.agent, change.key, change.version, change.value, claim.seq, claim.token)
        if (yield "save_state", [row]):
            saved.add(_place(claim))
            continue
        found = yield "token_of_run", [(claim.seq,)]
        # A run that is already committed repeats its commit after a lost answer: its state was saved then. A run that is asked to
        # stop saves none.
        if found and tuple(found[0][1:5]) == (claim.token, "running", None, None):
            results[_place(claim)] = changed(change)
    return saved


def _move_runs(now: int | None, going: Sequence[CommitRun], results: dict[Place, Refusal]) -> Transaction[None]:
    done = [one for one in going if one.then == "done"]
    if done:
        rows = [(now, one.claim.seq, one.claim.token, one.output, to_json(one.outcome).decode()) for one in done]
        if (yield Count("finish_well", rows)) < len(rows):
            results |= yield from refused([one.claim for one in done], [])
    staying = [one for one in going if one.then == "running"]
    if staying:
        rows = [(now, one.claim.seq, one.claim.token, one.output, to_json(one.outcome).decode()) for one in staying]
        moved = {row[0] for row in (yield "commit_run", rows)}
        for one in staying:
            if one.claim.seq not in moved:
                results |= yield from refused([one.claim], [])
    held = [one for one in going if one.then == "held"]
    if held:
        moved = yield "hold_output", [_held_row(now, one) for one in held]
        results |= yield from refused([one.claim for one in held], moved)
        stored = [one for one in held if results.get(_place(one.claim)) is None]
        if stored:
            attempts = [
                (now, one.claim.seq, one.claim.token, one.claim.process, "held", None, one.claim.claimed_at)
                for one in stored
            ]
            yield "insert_attempt", attempts


def close_runs(now: int | None, requests: Sequence[CloseRun]) -> Transaction[list[ClaimLost | CancelAsked | None]]:
    ordered = sorted(requests, key=lambda request: request.claim.seq)
    rows = [(now, one.claim.seq, one.claim.token, to_json(one.outcome).decode()) for one in ordered]
    closed = yield "close_run", rows
    lost = yield from refused([one.claim for one in ordered], closed)
    for one in ordered:
        if _place(one.claim) not in lost:
            one.woken = yield from runs_ended(now, [Ended(one.claim, "done", one.output)])
    well_again = [one.claim for one in ordered if one.well_again and _place(one.claim) not in lost]
    if well_again:
        yield from went_well(now, well_again)
    return [lost.get(_place(request.claim)) for request in requests]


def release_runs(now: int | None, requests: Sequence[ReleaseRun]) -> Transaction[list[Redone | None]]:
    """A person overrules the checks: deliveries are released, the state is saved, and the run goes on to release staged effects."""
    results: list[Redone | None] = []
    for request in requests:
        found = yield "find_held_output", [(request.id,)]
        if not found:
            results.append(None)
            continue
        seq, identifier, app, agent, state, outcome, committed_at, change, reason, holds_effect = found[0]
        if state != "held" or outcome is None or committed_at is not None or held_for_tampering(reason):
            words = _not_for_its_output(identifier, state, reason, holds_effect=holds_effect)
            results.append(Redone(identifier, state, words))
            continue
        edited = request.edited
        held = None if edited is None else (yield from output_to_edit(seq, edited))
        if edited is not None and held is None:
            results.append(Redone(identifier, state, MEANWHILE))
            continue
        if change is not None:
            given = from_json(change)
            row = (now, app, agent, given["key"], given["version"], given["value"], identifier)
            if not (yield "release_state", [row]):
                words = f"would overwrite a newer state of agent {agent}: `wakeful replay {identifier}` runs it again"
                results.append(Redone(identifier, state, words))
                continue
        reason = f"released by {request.by.name}{'' if edited is None else ', edited'}"
        reason += f": {request.note}" if request.note else ""
        before, verified = None, {}
        if edited is not None and held is not None:
            before, verified = held.as_data(), {"verification": edited.verification}
            yield from edit_output(now, held, edited, reason)
        told = to_json({**from_json(outcome), **verified, "commit": "committed"}).decode()
        yield "insert_remedy", [(now, seq, "release", request.by.name, request.note, before, None)]
        yield "release_deliveries", [(now, seq)]
        yield "release_output", [(now, seq, reason, told)]
        yield from resolve_held(now, [HeldRun(seq, app, agent, identifier)], reason)
        results.append(Redone(identifier, state))
    return results


def _not_for_its_output(run: str, state: str, reason: str | None, *, holds_effect: bool) -> str:
    """Why a run has no output to release, and what to do instead."""
    if state != "held":
        return f"is {state}: only a held output can be released"
    if held_for_tampering(reason):
        return f"is held for tampering, so nothing can be released: {reason}. {how_to_go_on(run, effect_to_settle(reason))}"
    if holds_effect:
        return "is held for an effect: `wakeful effects list` shows it, and how to settle it"
    return f"is held, but not for its output: `wakeful why {run}` shows why, and how to continue"


def changed(change: StateChange) -> StateChanged:
    return StateChanged(
        f"the state of agent {change.agent} was changed since this run read it (version {change.version}): "
        "the run is retried with the new one"
    )


def _place(claim: Claim) -> Place:
    return claim.seq, claim.token


def _delivery_row(now: int | None, request: CommitRun, delivery: Any) -> tuple[object, ...]:
    claim = request.claim
    state = "held" if request.then == "held" else "pending"
    return (
        now,
        delivery.id,
        claim.seq,
        claim.token,
        request.app,
        delivery.channel,
        state,
        delivery.message,
        delivery.subject,
        delivery.position,
        int(delivery.urgent),
        delivery.thread,
    )


def _staged_row(now: int | None, request: CommitRun, number: int) -> tuple[Any, ...]:
    effect = request.effects[number]
    columns = first_columns(now, request.claim, request.app, effect)
    return (*columns, effect.arguments, effect.attempt, effect.position)


def _held_row(now: int | None, request: CommitRun) -> tuple[object, ...]:
    change = request.state
    kept = (
        None
        if change is None
        else to_json({"key": change.key, "version": change.version, "value": change.value}).decode()
    )
    outcome = to_json(request.outcome).decode()
    return (now, request.claim.seq, request.claim.token, request.output, outcome, request.reason, kept)
