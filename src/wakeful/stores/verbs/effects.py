"""The ledger: what a run is about to do to the outside world, and what became of it. All of it fenced by the run's token."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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

# An action: its app, its reference, its name, and the JSON schema of its result, if that is declared.
ActionResult = tuple[str, str, str, str | None]


@dataclass(slots=True)
class OpenEffect(OfRun[Effect | Decision]):
    """Write down what is about to happen, before it does. `decide` is policy, asked in the same transaction.
    One that was staged is known already, and opened now.

    Comes back with the effect as it is stored (an earlier attempt, or a replay of the run, may have settled it already),
    or with a decision that is not "allow": then nothing was opened.
    """

    app: str
    effect: Effect
    decide: Callable[[], Decision]
    locks: tuple[HeldLock, ...] = ()
    declares: ActionResult | None = None  # at its first use by a process: what its action returns
    undoes_key: tuple[str, str] | None = None  # what it undoes has a business key: the action and the key


@dataclass(slots=True)
class SaveEffect(OfRun[None]):
    """What became of an effect."""

    effect: Effect
    woken: Sequence[tuple[str, str]] = ()  # runs that waited for the end of an undo: (app, agent)

    worth_storing = True
    may_wake = True


Opened = Effect | Decision | ClaimLost | CancelAsked | LockLost | CountedOn


def open_effects(now: int | None, requests: Sequence[OpenEffect]) -> Transaction[list[Opened]]:
    """1. What was asked for inside a lock that is gone is refused, and so is an undo of what another run counts on; policy is asked about the rest. 2. Insert the intents that are allowed; the token is checked by the insert itself. 3. What did not
    come back was stored before, or its claim is lost.
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
        decision = request.decide()
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
    """Saving the same again is the same write: after a lost COMMIT it is simply repeated."""
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
    """An effect out of a row of `find_effect` or `load_effects`."""
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
    """Is it one that was staged and has not begun, of a run that is to stop?"""
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
