"""The effect ledger: the intent before an action is called, and the result after. Every write is fenced by the run's token."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from wakeful.errors import CancelAsked, ClaimLost, CountedOn, LockLost, PolicyMoved
from wakeful.model import Claim, Decision, Effect
from wakeful.policy.judgement import Judgement
from wakeful.stores.notes import opened, opening
from wakeful.stores.request import OfRun, stands_for
from wakeful.stores.tampered import refuse_to_act_on
from wakeful.stores.transaction import Fetcher, Transaction
from wakeful.stores.verbs.followers import counted_on, tell_followers
from wakeful.stores.verbs.locks import HeldLock, lost_locks
from wakeful.stores.verbs.refusal import lost, refusal_of
from wakeful.stores.verbs.standing import Judged, Watched, final_decisions, note_uses, stored_mode

# An action: its app, its reference, its name, and the JSON schema of its result, if declared.
ActionResult = tuple[str, str, str, str | None]


@dataclass(slots=True)
class OpenEffect(OfRun[Effect | Decision]):
    """Record the intent of an effect, before the call. An effect that was staged is known already, and opened now.

    The result is the effect as it is stored: an earlier attempt, or a replay of the run, may have finished it already. If policy denies
    it, the decision is stored and is the result, and nothing is opened; if a person must decide, the effect is stored as held.
    Refused if the claim or a lock is lost, and with PolicyMoved if another policy is in force than the one it was judged by.
    """

    app: str
    effect: Effect
    judgement: Judgement  # of policy, asked just before
    locks: tuple[HeldLock, ...] = ()
    declares: ActionResult | None = None  # the action's result type, at its first use by a process
    undoes_key: tuple[str, str] | None = None  # action and business key of the effect that it undoes

    gate = stands_for("app")


@dataclass(slots=True)
class SaveEffect(OfRun[Decision | None]):
    """Store the state of an effect. Refused if the claim is lost.

    An effect that is about to be called again comes with a judgement. If policy does not allow the call, the decision is stored and is
    the result, and the effect stays as it was. Refused with PolicyMoved as OpenEffect.
    """

    effect: Effect
    judgement: Judgement | None = None  # for the state `intent`, and no other
    woken: Sequence[tuple[str, str]] = ()  # runs that waited for the end of an undo: (app, agent)

    worth_storing = True

    @property
    def gate(self) -> str | None:
        return None if self.judgement is None else self.claim.app


Refusal = ClaimLost | CancelAsked | LockLost | CountedOn | PolicyMoved
Opened = Effect | Decision | Refusal


def open_effects(now: int | None, requests: Sequence[OpenEffect]) -> Transaction[list[Opened]]:
    """1. Refuse effects inside a lost lock, and undos of an effect that another run counts on. 2. Ask for the final decisions. 3. Insert
    the allowed intents, and those that a person must decide about as held; the insert itself checks the token. 4. A missing row means
    that the effect existed before, or the claim is lost.
    """
    results: list[Opened | None] = [None] * len(requests)
    declared = {one.declares for one in requests if one.declares is not None}
    if declared:
        yield "declare_action", [(now, *action) for action in sorted(declared, key=lambda action: action[:2])]
    refused_early: dict[int, LockLost | CountedOn] = {}
    refused_early |= yield from lost_locks(requests)
    refused_early |= yield from counted_on(now, requests)
    asked = {number: one for number, one in enumerate(requests) if number not in refused_early}
    judged = {number: judged_of(one) for number, one in asked.items() if one.effect.state == "intent"}
    decisions, watched = yield from final_decisions(now, judged)
    effects: dict[int, Effect] = {}
    for number, request in enumerate(requests):
        decision = decisions.get(number)
        if number in refused_early:
            results[number] = refused_early[number]
        elif isinstance(decision, PolicyMoved):
            results[number] = decision
        else:
            became = decided(request.effect, decision)
            if isinstance(became, Decision):
                results[number] = became
            else:
                effects[number] = became
    yield from store_decisions(now, requests, decisions, watched)
    allowed = sorted(effects, key=lambda number: effects[number].id)
    rows = [_new_row(now, requests[number], effects[number]) for number in allowed if not effects[number].staged]
    inserted = {row[0]: row[1] for row in ((yield "insert_effect", rows) if rows else [])}
    staged = [_staged_row(now, requests[number], effects[number]) for number in allowed if effects[number].staged]
    if staged:
        inserted |= {row[0]: row[1] for row in (yield "open_staged_effect", staged)}
    for number in allowed:
        effect = effects[number]
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
    yield from note_uses(
        now, [judged[one] for one in allowed if effects[one].state == "intent" and effects[one].id in inserted]
    )
    return [result for result in results if result is not None]


def judged_of(request: OpenEffect) -> Judged:
    return Judged(request.app, request.judgement, request.effect.id)


def decided(effect: Effect, decision: Decision | None) -> Effect | Decision:
    """The effect as it begins under a decision; the decision itself if it denies. An effect that is held is a copy, because the transaction
    may be retried. An undo that is denied is held: its run cannot end without an answer.
    """
    if decision is None:
        return effect
    if decision.answer == "allow":
        effect.rule, effect.policy = decision.rule, decision.version
        return effect
    if decision.answer == "deny" and effect.undoes is None:
        return decision
    return replace(
        effect, state="held", reason=f"{decision.rule}: {decision.reason}", rule=decision.rule, policy=decision.version
    )


def store_decisions(
    now: int | None, requests: Sequence[OpenEffect], decisions: Mapping[int, Decision | PolicyMoved], watched: Watched
) -> Transaction[None]:
    """Store each answer that is not "allow", and the answers of rules that only watch."""
    rows = []
    for number, decision in sorted(decisions.items()):
        if isinstance(decision, PolicyMoved):
            continue
        request = requests[number]
        rows += [decision_row(now, request, one) for one in watched.get(number, ())]
        if decision.answer != "allow":
            rows.append(decision_row(now, request, decision))
    if rows:
        yield "insert_run_decision", rows


def decision_row(now: int | None, request: OpenEffect | SaveEffect, decision: Decision) -> tuple[object, ...]:
    """A row of `insert_run_decision` about an effect."""
    claim, effect = request.claim, request.effect
    about = ("effect", effect.action, effect.id, stored_mode(decision))
    return (now, claim.seq, claim.agent, decision.answer, decision.rule, decision.version, decision.reason, *about)


def save_effects(
    now: int | None, requests: Sequence[SaveEffect]
) -> Transaction[list[Decision | ClaimLost | PolicyMoved | None]]:
    """Idempotent: after a COMMIT whose answer was lost, the same write is repeated."""
    refused = yield from _judge_calls(now, requests)
    ordered = sorted(
        (one for number, one in enumerate(requests) if number not in refused), key=lambda request: request.effect.id
    )
    ends = [one for one in ordered if one.effect.undoes is not None and one.effect.state == "confirmed"]
    keyed = (yield "lock_keys_of_effect", sorted((one.effect.undoes,) for one in ends)) if ends else []
    saved = (yield "save_effect", [effect_row(now, request) for request in ordered]) if ordered else []
    written = {row[0] for row in saved}
    results: list[Decision | ClaimLost | PolicyMoved | None] = []
    for number, request in enumerate(requests):
        result: Decision | ClaimLost | PolicyMoved | None = refused.get(number)
        if result is None and request.effect.id not in written:
            owned = yield "token_of_run", [(request.claim.seq,)]
            result = None if _owns(request, owned) else lost(request.claim)
        results.append(result)
    if ends:
        yield "mark_undone", [(now, one.effect.id, one.effect.undoes) for one in ends]
    for one in ends if keyed else ():
        one.woken = yield from tell_followers(now, one.effect.undoes or "")
    return results


def _judge_calls(now: int | None, requests: Sequence[SaveEffect]) -> Transaction[dict[int, Decision | PolicyMoved]]:
    """The effects that must not be called again, each with the decision. Uses were counted when the effect began."""
    judged: dict[int, Judged] = {}
    for number, request in enumerate(requests):
        if request.effect.state == "intent":
            if request.judgement is None:
                message = f"effect {request.effect.id} would be called without a judgement"
                raise ValueError(message)
            judged[number] = Judged(request.claim.app, replace(request.judgement, counted=()), request.effect.id)
    if not judged:
        return {}
    decisions, _ = yield from final_decisions(now, judged)  # rules that watch were recorded when the effect began
    refused = {
        number: one for number, one in decisions.items() if isinstance(one, PolicyMoved) or one.answer != "allow"
    }
    rows = [decision_row(now, requests[number], one) for number, one in refused.items() if isinstance(one, Decision)]
    if rows:
        yield "insert_run_decision", rows
    return refused


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
        effect.rule,
        effect.policy,
    )


def effect_of(row: Sequence[object]) -> Effect:
    """An effect from a row of `find_effect` or `load_effects`."""
    effect = Effect(*row[1:16])  # type: ignore[arg-type]  # columns of a row have no types
    staged, called_at, due_at, doubtful, undoes = row[16:21]
    effect.staged, effect.doubtful, effect.undoes = bool(staged), bool(doubtful), undoes  # type: ignore[assignment]
    effect.called_at, effect.due_at = called_at, due_at  # type: ignore[assignment]
    effect.given = bool(row[21])
    effect.once, effect.operation, effect.follows, effect.settlement = row[22:26]  # type: ignore[assignment]
    effect.rule, effect.policy = row[26:28]  # type: ignore[assignment]
    effect.arguments, effect.opened_as = opened(effect.arguments)
    return effect


def _owns(request: OpenEffect | SaveEffect, rows: Sequence[Sequence[object]]) -> bool:
    return bool(rows) and rows[0][1] == request.claim.token and rows[0][2] == "running"


def _may_not_begin(effect: Sequence[object], rows: Sequence[Sequence[object]]) -> bool:
    """Whether the effect is staged but not begun, and its run is asked to stop."""
    return effect[5] == "staged" and rows[0][4] is not None


def _staged_row(now: int | None, request: OpenEffect, effect: Effect) -> tuple[object, ...]:
    claim = request.claim
    begins = (now, effect.id, claim.seq, claim.token, effect.state, effect.reason, effect.tries, effect.attempt)
    return (*begins, effect.rule, effect.policy)


def _new_row(now: int | None, request: OpenEffect, effect: Effect) -> tuple[object, ...]:
    claim = request.claim
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
        effect.rule,
        effect.policy,
    )


async def effects_to_undo(database: Fetcher, claim: Claim) -> list[Effect]:
    """The effects of a run that it undoes, in the order in which it undoes them. PayloadTampered if one cannot be trusted."""
    rows = await database.fetch("effects_to_undo", claim.root, claim.seq)
    refuse_to_act_on(rows)
    return [effect_of(row) for row in rows]
