"""The effect ledger: the intent before an action is called, and the result after. Every write is fenced by the run's token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wakeful.errors import CancelAsked, ClaimLost, CountedOn, LockLost
from wakeful.model import Claim, Decision, Effect
from wakeful.stores.notes import opened, opening
from wakeful.stores.request import OfRun
from wakeful.stores.tampered import refuse_to_act_on
from wakeful.stores.transaction import Fetcher, Transaction
from wakeful.stores.verbs.followers import counted_on, tell_followers
from wakeful.stores.verbs.locks import HeldLock, lost_locks
from wakeful.stores.verbs.refusal import lost, refusal_of

# An action: its app, its reference, its name, and the JSON schema of its result, if declared.
ActionResult = tuple[str, str, str, str | None]


@dataclass(slots=True)
class OpenEffect(OfRun[Effect | Decision]):
    """Record the intent of an effect, before the call. An effect that was staged is known already, and opened now.

    The result is the effect as it is stored: an earlier attempt, or a replay of the run, may have finished it already. If policy's decision
    is not "allow", the decision is stored and is the result, and nothing is opened.
    Refused if the claim or a lock is lost.
    """

    app: str
    effect: Effect
    decision: Decision  # of policy, asked just before
    locks: tuple[HeldLock, ...] = ()
    declares: ActionResult | None = None  # the action's result type, at its first use by a process
    undoes_key: tuple[str, str] | None = None  # action and business key of the effect that it undoes


@dataclass(slots=True)
class SaveEffect(OfRun[None]):
    """Store the result of an effect. Refused if the claim is lost."""

    effect: Effect
    woken: Sequence[tuple[str, str]] = ()  # runs that waited for the end of an undo: (app, agent)

    worth_storing = True


Opened = Effect | Decision | ClaimLost | CancelAsked | LockLost | CountedOn


def open_effects(now: int | None, requests: Sequence[OpenEffect]) -> Transaction[list[Opened]]:
    """1. Refuse effects inside a lost lock, and undos of an effect that another run counts on. 2. Insert the
    allowed intents; the insert itself checks the token. 3. A missing row means that the effect existed before, or the claim is lost.
    """
    results: list[Opened | None] = [None] * len(requests)
    declared = {one.declares for one in requests if one.declares is not None}
    if declared:
        yield "declare_action", [(now, *action) for action in sorted(declared, key=lambda action: action[:2])]
    refused_early: dict[int, LockLost | CountedOn] = {}
    refused_early |= yield from lost_locks(requests)
    refused_early |= yield from counted_on(now, requests)
    for number, request in enumerate(requests):
        if number in refused_early:
            results[number] = refused_early[number]
            continue
        decision = request.decision
        if decision.answer != "allow":
            results[number] = decision
    refused = [
        (now, one.claim.seq, one.claim.agent, answer.answer, answer.rule, answer.version, answer.reason)
        for one, answer in zip(requests, results, strict=True)
        if isinstance(answer, Decision)
    ]
    if refused:
        yield "insert_run_decision", refused
    allowed = sorted(
        (number for number, result in enumerate(results) if result is None),
        key=lambda number: requests[number].effect.id,
    )
    rows = [_new_row(now, requests[number]) for number in allowed if not requests[number].effect.staged]
    inserted = {row[0]: row[1] for row in ((yield "insert_effect", rows) if rows else [])}
    staged = [_staged_row(now, requests[number]) for number in allowed if requests[number].effect.staged]
    if staged:
        inserted |= {row[0]: row[1] for row in (yield "open_staged_effect", staged)}
    for number in allowed:
        effect = requests[number].effect
        if effect.id in inserted:
            effect.opened_at = effect.called_at = inserted[effect.id]
            results[number] = effect
        else:
            found = yield "find_effect", [(effect.id,)]
            owned = yield "token_of_run", [(requests[number].claim.seq,)]
            results[number] = (
                effect_of(found[0])
                if found and _owns(requests[number], owned) and not _may_not_begin(found[0], owned)
                else refusal_of(requests[number].claim, owned)
            )
    return [result for result in results if result is not None]


def save_effects(now: int | None, requests: Sequence[SaveEffect]) -> Transaction[list[ClaimLost | None]]:
    """Idempotent: after a COMMIT whose answer was lost, the same write is repeated."""
    ordered = sorted(requests, key=lambda request: request.effect.id)
    ends = [one for one in ordered if one.effect.undoes is not None and one.effect.state == "confirmed"]
    keyed = (yield "lock_keys_of_effect", sorted((one.effect.undoes,) for one in ends)) if ends else []
    saved = yield "save_effect", [effect_row(now, request) for request in ordered]
    written = {row[0] for row in saved}
    results: list[ClaimLost | None] = []
    for request in requests:
        refused = None
        if request.effect.id not in written:
            owned = yield "token_of_run", [(request.claim.seq,)]
            refused = None if _owns(request, owned) else lost(request.claim)
        results.append(refused)
    if ends:
        yield "mark_undone", [(now, one.effect.id, one.effect.undoes) for one in ends]
    for one in ends if keyed else ():
        one.woken = yield from tell_followers(now, one.effect.undoes or "")
    return results


def effect_row(now: int | None, request: SaveEffect) -> tuple[object, ...]:
    claim, effect = request.claim, request.effect
    return (
        now,
        effect.id,
        claim.seq,
        claim.token,
        effect.state,
        effect.reason,
        effect.result,
        effect.error,
        effect.tries,
        effect.attempt,
        effect.due_at or None,
        int(effect.doubtful),
    )


def effect_of(row: Sequence[object]) -> Effect:
    """An effect from a row of `find_effect` or `load_effects`."""
    effect = Effect(*row[1:16])  # type: ignore[arg-type]  # columns of a row have no types
    staged, called_at, due_at, doubtful, undoes = row[16:21]
    effect.staged, effect.doubtful, effect.undoes = bool(staged), bool(doubtful), undoes  # type: ignore[assignment]
    effect.called_at, effect.due_at = called_at, due_at  # type: ignore[assignment]
    effect.given = bool(row[21])
    effect.once, effect.operation, effect.follows, effect.settlement = row[22:26]  # type: ignore[assignment]
    effect.arguments, effect.opened_as = opened(effect.arguments)
    return effect


def _owns(request: OpenEffect | SaveEffect, rows: Sequence[Sequence[object]]) -> bool:
    return bool(rows) and rows[0][1] == request.claim.token and rows[0][2] == "running"


def _may_not_begin(effect: Sequence[object], rows: Sequence[Sequence[object]]) -> bool:
    """Whether the effect is staged but not begun, and its run is asked to stop."""
    return effect[5] == "staged" and rows[0][4] is not None


def _staged_row(now: int | None, request: OpenEffect) -> tuple[object, ...]:
    claim, effect = request.claim, request.effect
    return (now, effect.id, claim.seq, claim.token, effect.state, effect.reason, effect.tries, effect.attempt)


def _new_row(now: int | None, request: OpenEffect) -> tuple[object, ...]:
    claim, effect = request.claim, request.effect
    return (
        now,
        effect.id,
        claim.root,
        claim.seq,
        claim.token,
        request.app,
        claim.agent,
        effect.action,
        effect.reference,
        effect.safety,
        effect.state,
        effect.reason,
        opening(effect),
        effect.tries,
        effect.attempt,
        effect.position,
        effect.undoes,
    )


async def effects_to_undo(database: Fetcher, claim: Claim) -> list[Effect]:
    """The effects of a run that it undoes, in the order in which it undoes them. PayloadTampered if one cannot be trusted."""
    rows = await database.fetch("effects_to_undo", claim.root, claim.seq)
    refuse_to_act_on(rows)
    return [effect_of(row) for row in rows]
