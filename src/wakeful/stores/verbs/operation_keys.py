"""Once per business key of an action: which effect has the key, and which effects follow it.

    open ──► lock the key ─┬─ free, expired, or its effect was certainly not done ──► take the key: an intent
                           ├─ its effect is confirmed ──────────────────────────────► follow it: the same result, no call
                           ├─ its effect is confirmed and being undone ─────────────► follow it, and wait
                           ├─ a person abandoned its effect ────────────────────────► abandoned
                           └─ its effect is not over ───────────────────────────────► follow it, and wait

    the end of that effect ──► lock the key ──► followers get its result, and their runs resume, in the same transaction

Every transaction that touches a key locks its row first, and rows of runs only after that. So the end of an effect and a run that starts
waiting for it happen one after the other, and the second sees the first. An undo is opened under the same lock: if a run asked before,
it has the result, and the effect is not undone; a run that asks later waits for the end of the undo.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from wakeful.clock import Microseconds
from wakeful.errors import CancelAsked, ClaimLost, KeyTaken, LockLost, NotBegun
from wakeful.model import Decision, Effect, digest
from wakeful.policy.judgement import Judgement
from wakeful.stores.request import OfRun
from wakeful.stores.transaction import Transaction
from wakeful.stores.verbs.consent import AwaitsApproval, EffectQuestion, consented, open_questions
from wakeful.stores.verbs.effects import (
    OpenEffect,
    SaveEffect,
    asked_about,
    count_grants,
    decided,
    effect_of,
    first_columns,
    judged_of,
    save_effects,
    store_decisions,
)
from wakeful.stores.verbs.followers import KeyHolder, asked_of, done_by, tell_followers
from wakeful.stores.verbs.locks import lost_locks
from wakeful.stores.verbs.refusal import refusal_of
from wakeful.stores.verbs.standing import final_decisions, note_uses


@dataclass(slots=True)
class OpenOnce(OpenEffect):
    """As OpenEffect, with a business key. If another effect has the key, this one follows it: it returns that one's result, or has the
    state `retrying` while that one is not over. Otherwise it takes the key for `span`.
    """

    span: Microseconds = 0


@dataclass(slots=True)
class SaveOnce(OfRun[Decision | AwaitsApproval | None]):
    """As SaveEffect. Refused with KeyTaken if the action is about to be called and another effect has the key by now."""

    app: str
    effect: Effect
    judgement: Judgement | None = None
    questions: Mapping[str, EffectQuestion] = field(default_factory=dict)
    woken: list[tuple[str, str]] = field(default_factory=list)  # runs that waited for its end: (app, agent)

    worth_storing = True

    def alarming(self) -> bool:
        return bool(self.questions)

    @property
    def gate(self) -> str | None:
        return None if self.judgement is None else self.app


Opened = Effect | Decision | ClaimLost | CancelAsked | LockLost | NotBegun
Place = tuple[str, str, str]  # app, action, key

ENDS = frozenset({"confirmed", "failed"})


def open_once(now: int | None, requests: Sequence[OpenOnce]) -> Transaction[list[Opened]]:
    """As open_effects, one key after the other, in the same order everywhere."""
    results: dict[int, Opened] = {}
    declared = {one.declares for one in requests if one.declares is not None}
    if declared:
        yield "declare_action", [(now, *action) for action in sorted(declared, key=lambda action: action[:2])]
    refused = yield from lost_locks(requests)
    asked = {number: one for number, one in enumerate(requests) if number not in refused}
    judged = {number: judged_of(one) for number, one in asked.items() if one.effect.state == "intent"}
    decisions, watched, over = yield from final_decisions(now, judged)
    decisions |= yield from consented(now, asked, judged, decisions, over)
    begins: dict[int, Effect] = {}
    for number, request in asked.items():
        decision = decisions.get(number)
        became = decision if isinstance(decision, NotBegun) else decided(request, decision)
        if isinstance(became, Effect):
            begins[number] = became
        else:
            results[number] = became
    yield from store_decisions(now, requests, decisions, watched)
    begun = []
    for number in sorted(range(len(requests)), key=lambda one: place_of(requests[one])):
        if number in refused:
            results[number] = refused[number]
        elif number in begins:
            opened = yield from _open(now, requests[number], begins[number])
            results[number] = opened
            if isinstance(opened, Effect) and opened.state == "intent" and number in judged:
                begun.append(number)
    yield from note_uses(now, [judged[number] for number in begun])
    yield from count_grants(now, requests, decisions, begun)
    return [results[number] for number in range(len(requests))]


def _open(now: int | None, request: OpenOnce, effect: Effect) -> Transaction[Opened]:
    """The effect as stored. A copy each time, because the transaction may be retried."""
    place = place_of(request)
    yield "make_operation_key", [(now, *place)]
    ((has, taken, expired),) = yield "lock_operation_key", [(now, *place)]
    found = (yield "holder_of_key", [asked_of(has)]) if has else []
    holder = KeyHolder(*found[0]) if found else None
    if holder is not None and holder.id == effect.id and not holder.is_free(expired=False):
        return (yield from _as_stored(request))
    if holder is None or holder.id == effect.id or holder.is_free(expired=bool(expired)):
        operation = digest("once", *place, str(taken + 1))
        mine = replace(effect, operation=operation, follows=None, tries=0, due_at=0, doubtful=False)
        opened = yield "open_once_effect", [_row(now, request, mine)]
        if not opened:
            return (yield from _as_stored(request))
        mine.opened_at = mine.called_at = opened[0][1]
        yield "take_operation_key", [(now, *place, mine.id, taken + 1, request.span)]
        yield from open_questions(now, asked_about([(request, mine)]))
        return mine
    follower = _following(effect, holder)
    opened = yield "open_once_effect", [_row(now, request, follower)]
    if not opened:
        return (yield from _as_stored(request))
    follower.opened_at = follower.called_at = opened[0][1]
    if follower.state == "retrying":
        yield "follow_effect", [(holder.id, follower.id, request.claim.seq)]
    return follower


def _following(effect: Effect, holder: KeyHolder) -> Effect:
    follower = replace(effect, operation=None, follows=holder.id, tries=0, due_at=0, doubtful=False, approval=None)
    if holder.is_done:
        follower.state, follower.result = "confirmed", holder.result
        follower.reason = done_by(holder, effect.arguments)
    elif holder.state == "abandoned":
        follower.state, follower.settled_by, follower.note = "abandoned", holder.settled_by, holder.note
        follower.reason = f"once: it was abandoned for run {holder.run}, whose key is the same"
    else:
        follower.state = "retrying"
        does = "is undoing it" if holder.state == "confirmed" else "does it"
        state = "" if holder.state == "confirmed" else f" (its effect is {holder.state})"
        follower.reason = f'once: waits for run {holder.run}, which {does} for key "{effect.once}"{state}'
    return follower


def _as_stored(request: OpenOnce) -> Transaction[Opened]:
    """The stored effect, if it existed before; a refusal if the claim is lost."""
    claim = request.claim
    found = yield "find_effect", [(request.effect.id,)]
    owned = yield "token_of_run", [(claim.seq,)]
    if not found or not owned or owned[0][1] != claim.token or owned[0][2] != "running":
        return refusal_of(claim, owned)
    if found[0][5] == "staged" and owned[0][4] is not None:  # its run is asked to stop, so it must not begin
        return refusal_of(claim, owned)
    return effect_of(found[0])


def save_once(
    now: int | None, requests: Sequence[SaveOnce]
) -> Transaction[list[Decision | AwaitsApproval | Exception | None]]:
    """1. Lock the keys; an effect that is about to be called must have its key. 2. Save. 3. Resume the followers of ended effects."""
    results: list[Decision | AwaitsApproval | Exception | None] = [None] * len(requests)
    going: list[int] = []
    for number in sorted(range(len(requests)), key=lambda one: place_of(requests[one])):
        request = requests[number]
        locked = yield "lock_operation_key", [(now, *place_of(request))]
        if request.effect.state == "intent" and not (locked and locked[0][0] == request.effect.id):
            results[number] = KeyTaken(f"another run has key {request.effect.once!r} of {request.effect.action} by now")
        else:
            going.append(number)
    saved = yield from save_effects(
        now,
        [
            SaveEffect(requests[one].claim, requests[one].effect, requests[one].judgement, requests[one].questions)
            for one in going
        ],
    )
    for number, refusal in zip(going, saved, strict=True):
        results[number] = refusal
        if refusal is None and requests[number].effect.state in ENDS:
            requests[number].woken = yield from tell_followers(now, requests[number].effect.id)
    return results


def place_of(request: OpenOnce | SaveOnce) -> Place:
    return request.app, request.effect.action, request.effect.once or ""


def _row(now: int | None, request: OpenOnce, effect: Effect) -> tuple[object, ...]:
    return (
        *first_columns(now, request.claim, request.app, effect),
        effect.state,
        effect.reason,
        effect.arguments,
        effect.result,
        effect.attempt,
        effect.position,
        int(effect.staged),
        effect.settled_by,
        effect.note,
        effect.once,
        effect.operation,
        effect.follows,
        effect.rule,
        effect.policy,
    )
