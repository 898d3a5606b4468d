"""The effect ledger: the intent before an action is called, and the result after. Every write is fenced by the run's token."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from wakeful.errors import CancelAsked, ClaimLost, CountedOn, LockLost, NotBegun
from wakeful.model import Claim, Decision, Effect
from wakeful.policy.judgement import Judgement
from wakeful.stores.notes import opened, opening
from wakeful.stores.request import OfRun, stands_for
from wakeful.stores.tampered import refuse_to_act_on
from wakeful.stores.transaction import Fetcher, Transaction
from wakeful.stores.verbs.consent import (
    AwaitsApproval,
    EffectQuestion,
    asks_people,
    consented,
    no_longer_asked,
    open_questions,
    said_no,
    still_asked,
    waiting_for,
)
from wakeful.stores.verbs.followers import counted_on, tell_followers
from wakeful.stores.verbs.grants import Granted, note_grants
from wakeful.stores.verbs.halts import subject_to_halts
from wakeful.stores.verbs.locks import HeldLock, lost_locks
from wakeful.stores.verbs.refusal import lost, refusal_of
from wakeful.stores.verbs.standing import Judged, Watched, final_decisions, note_uses, stored_mode

# An action: its app, its reference, its name, and the JSON schema of its result, if declared.
ActionResult = tuple[str, str, str, str | None]


@dataclass(slots=True)
class OpenEffect(OfRun[Effect | Decision]):
    """Record the intent of an effect, before the call. An effect that was staged is known already, and opened now.

    The result is the effect as it is stored: an earlier attempt, or a replay of the run, may have finished it already. If policy denies
    it, the decision is stored and is the result, and nothing is opened. If a rule asks, the effect is stored as waiting, together with its
    approval; if a rule holds it, as held.
    Refused if the claim or a lock is lost, with PolicyMoved if another policy is in force than the one it was judged by, and with Halted
    if its app, agent or action is halted.
    """

    app: str
    effect: Effect
    judgement: Judgement  # of policy, asked just before
    questions: Mapping[str, EffectQuestion] = field(default_factory=dict)  # by the rule that would ask
    locks: tuple[HeldLock, ...] = ()
    declares: ActionResult | None = None  # the action's result type, at its first use by a process
    undoes_key: tuple[str, str] | None = None  # action and business key of the effect that it undoes

    gate = stands_for("app")

    def alarming(self) -> bool:
        return bool(self.questions)


@dataclass(slots=True)
class SaveEffect(OfRun[Decision | AwaitsApproval | None]):
    """Store the state of an effect. Refused if the claim is lost.

    An effect that is about to be called again comes with a judgement. If policy does not allow the call, the decision is stored and is
    the result, and the effect stays as it was. If a rule asks, the effect is stored as waiting, and the result names its approval.
    Refused with PolicyMoved or Halted as OpenEffect.
    """

    effect: Effect
    judgement: Judgement | None = None  # for the state `intent`, and no other
    questions: Mapping[str, EffectQuestion] = field(default_factory=dict)  # as in OpenEffect
    woken: Sequence[tuple[str, str]] = ()  # runs that waited for the end of an undo: (app, agent)

    worth_storing = True

    def alarming(self) -> bool:
        return bool(self.questions)

    @property
    def gate(self) -> str | None:
        return None if self.judgement is None else self.claim.app


Refusal = ClaimLost | CancelAsked | LockLost | CountedOn | NotBegun
Opened = Effect | Decision | Refusal
Refused = Decision | NotBegun
Saved = Decision | AwaitsApproval | ClaimLost | NotBegun | None
Asked = tuple[SaveEffect, EffectQuestion | None, AwaitsApproval]
ENDS = frozenset({"confirmed", "failed"})


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
    decisions, watched, over = yield from final_decisions(now, judged)
    decisions |= yield from consented(now, asked, judged, decisions, over)
    effects: dict[int, Effect] = {}
    for number, request in enumerate(requests):
        decision = decisions.get(number)
        if number in refused_early:
            results[number] = refused_early[number]
        elif isinstance(decision, NotBegun):
            results[number] = decision
        else:
            became = decided(request, decision)
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
    yield from open_questions(
        now, asked_about([(requests[one], effects[one]) for one in allowed if effects[one].id in inserted])
    )
    begun = [one for one in allowed if effects[one].state == "intent" and effects[one].id in inserted]
    yield from note_uses(now, [judged[one] for one in begun])
    yield from count_grants(now, requests, decisions, begun)
    return [result for result in results if result is not None]


def judged_of(request: OpenEffect) -> Judged:
    halts = subject_to_halts(request.claim, request.effect)
    return Judged(request.app, request.judgement, request.effect.id, halts)


def asked_about(stored: Sequence[tuple[OpenEffect, Effect]]) -> list[tuple[OpenEffect | SaveEffect, EffectQuestion]]:
    """The approvals of effects that are now stored as waiting."""
    return [
        (request, request.questions[effect.rule])
        for request, effect in stored
        if effect.state == "waiting" and effect.rule is not None
    ]


def decided(request: OpenEffect, decision: Decision | None) -> Effect | Decision:
    """The effect as it begins under a decision; the decision itself if it denies. An effect that waits or is held is a copy, because the
    transaction may be retried. An undo that is denied is held: its run cannot end without an answer.
    """
    effect = request.effect
    if decision is None:
        return effect
    if decision.answer == "allow":
        effect.rule, effect.policy = decision.rule, decision.version
        return effect
    if decision.answer == "deny" and effect.undoes is None:
        return decision
    if decision.answer == "ask" and asks_people(request, decision.rule):
        return waiting_for(effect, decision, request.questions[decision.rule])
    return replace(
        effect, state="held", reason=f"{decision.rule}: {decision.reason}", rule=decision.rule, policy=decision.version
    )


def store_decisions(
    now: int | None, requests: Sequence[OpenEffect], decisions: Mapping[int, Decision | NotBegun], watched: Watched
) -> Transaction[None]:
    """Store each answer that is not "allow", and the answers of rules that only watch."""
    rows = []
    for number, decision in sorted(decisions.items()):
        if isinstance(decision, NotBegun):
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


def count_grants(
    now: int | None,
    requests: Sequence[OpenEffect | SaveEffect],
    decisions: Mapping[int, Decision | NotBegun],
    begun: Sequence[int],
) -> Transaction[None]:
    """Count the effects that begin now by a grant, and store the decision of each."""
    granted = [
        Granted(decision.grant, requests[number].effect.id, decision_row(now, requests[number], decision))
        for number in begun
        if isinstance(decision := decisions.get(number), Decision) and decision.grant is not None
    ]
    if granted:
        yield from note_grants(now, granted)


def save_effects(now: int | None, requests: Sequence[SaveEffect]) -> Transaction[list[Saved]]:
    """Idempotent: after a COMMIT whose answer was lost, the same write is repeated."""
    refused, asked = yield from _judge_calls(now, requests)
    requests = [asked[number][0] if number in asked else one for number, one in enumerate(requests)]
    ordered = sorted(
        (one for number, one in enumerate(requests) if number not in refused), key=lambda request: request.effect.id
    )
    ends = [one for one in ordered if one.effect.undoes is not None and one.effect.state == "confirmed"]
    keyed = (yield "lock_keys_of_effect", sorted((one.effect.undoes,) for one in ends)) if ends else []
    saved = (yield "save_effect", [effect_row(now, request) for request in ordered]) if ordered else []
    written = {row[0] for row in saved}
    yield from open_questions(
        now, [(one, made) for one, made, _ in asked.values() if made is not None and one.effect.id in written]
    )
    yield from _end_questions(now, [one.effect for one in ordered if one.effect.id in written])
    results: list[Saved] = []
    for number, request in enumerate(requests):
        result: Saved = refused.get(number)
        if number in asked and request.effect.id in written:
            result = asked[number][2]
        if result is None and request.effect.id not in written:
            owned = yield "token_of_run", [(request.claim.seq,)]
            result = None if _owns(request, owned) else lost(request.claim)
        results.append(result)
    if ends:
        yield "mark_undone", [(now, one.effect.id, one.effect.undoes) for one in ends]
    for one in ends if keyed else ():
        one.woken = yield from tell_followers(now, one.effect.undoes or "")
    return results


def _end_questions(now: int | None, effects: Sequence[Effect]) -> Transaction[None]:
    """An effect that waits no longer needs no answer any more. When it ends, what people said yes to is used up."""
    begun = [one.id for one in effects if one.approval is not None and one.state != "waiting"]
    if begun:
        yield from no_longer_asked(now, begun)
    ended = [one.id for one in effects if one.approval is not None and one.state in ENDS]
    if ended:
        yield "use_up_approvals", [(now, one) for one in sorted(ended)]


def _judge_calls(
    now: int | None, requests: Sequence[SaveEffect]
) -> Transaction[tuple[dict[int, Refused], dict[int, Asked]]]:
    """The effects that must not be called again, each with the decision; and those that wait for an approval first. Uses were counted
    when the effect began; an effect that waited for an approval has not begun.
    """
    judged: dict[int, Judged] = {}
    for number, request in enumerate(requests):
        if request.effect.state == "intent":
            if request.judgement is None:
                message = f"effect {request.effect.id} would be called without a judgement"
                raise ValueError(message)
            counted = request.judgement.counted if has_waited(request.effect) else ()
            halts = subject_to_halts(request.claim, request.effect)
            judgement = replace(request.judgement, counted=counted)
            judged[number] = Judged(request.claim.app, judgement, request.effect.id, halts)
    if not judged:
        return {}, {}
    # Rules that watch were recorded when the effect began.
    decisions, _, over = yield from final_decisions(now, judged)
    decisions |= yield from consented(now, {one: requests[one] for one in judged}, judged, decisions, over)
    noes = yield from said_no({one: requests[one] for one in judged if not isinstance(decisions[one], NotBegun)})
    asking = {
        number: (requests[number], one)
        for number, one in decisions.items()
        if isinstance(one, Decision)
        and one.answer == "ask"
        and number not in noes
        and asks_people(requests[number], one.rule)
    }
    kept = yield from still_asked(asking)
    refused: dict[int, Refused] = {}
    asked: dict[int, Asked] = {}
    rows = []
    for number, decision in decisions.items():
        if isinstance(decision, NotBegun):
            refused[number] = decision
            continue
        request = requests[number]
        if number in noes:
            asked[number] = _still_waits(request, noes[number])
            continue
        if decision.answer == "allow":
            request.effect.rule, request.effect.policy = decision.rule, decision.version
            continue
        if number in asking:
            asked[number] = _asks(request, decision, kept.get(number))
            if number in kept:
                continue
        else:
            refused[number] = decision
        rows.append(decision_row(now, request, decision))
    if rows:
        yield "insert_run_decision", rows
    begun = [number for number in decisions if number not in refused and number not in asked]
    yield from note_uses(now, [judged[one] for one in begun if judged[one].judgement.counted])
    yield from count_grants(now, requests, decisions, begun)
    return refused, asked


def has_waited(effect: Effect) -> bool:
    """Whether the effect waited for an approval before its first call, which is about to be made."""
    return effect.approval is not None and effect.tries <= 1


def _still_waits(request: SaveEffect, kept: AwaitsApproval) -> Asked:
    waits = replace(
        request.effect,
        state="waiting",
        rule=kept.decision.rule,
        tries=request.effect.tries - 1,
        approval=kept.approval,
        due_at=0,
    )
    return replace(request, effect=waits), None, kept


def _asks(request: SaveEffect, decision: Decision, kept: AwaitsApproval | None) -> Asked:
    """The effect as it waits, the approval to open (None: it is open already), and the result."""
    question = request.questions[decision.rule]
    effect = waiting_for(request.effect, decision, question)
    effect.tries -= 1
    if kept is not None:
        effect.approval = kept.approval
        return replace(request, effect=effect), None, kept
    return replace(request, effect=effect), question, AwaitsApproval(decision, question.id, question.step.key)


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
    effect.rule, effect.policy, effect.approval, effect.executed = row[26:30]  # type: ignore[assignment]
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


def first_columns(now: int | None, claim: Claim, app: str, effect: Effect) -> tuple[object, ...]:
    """The beginning of the row of every new effect."""
    of_run = (claim.root, claim.seq, claim.token, app, claim.agent)
    return (now, effect.id, *of_run, effect.action, effect.reference, effect.safety)


def _new_row(now: int | None, request: OpenEffect, effect: Effect) -> tuple[object, ...]:
    return (
        *first_columns(now, request.claim, request.app, effect),
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
