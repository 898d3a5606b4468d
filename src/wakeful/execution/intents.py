"""The intent of an effect: stored, and allowed by policy, before the call is made."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

from pydantic_core import from_json

from wakeful.errors import Denied, PolicyMoved
from wakeful.execution.actions import Action
from wakeful.execution.attempt import Attempt
from wakeful.execution.business_key import arguments_by_name, key_of
from wakeful.execution.checkpoint import ARGUMENTS_SHOWN
from wakeful.execution.locks import locks_held
from wakeful.functions.call import CHECK_LIMIT, call
from wakeful.model import Decision, Effect
from wakeful.policy.decide import ALLOWED, EffectFacts
from wakeful.policy.judgement import Judgement
from wakeful.redaction import redact
from wakeful.stored_errors import words_of
from wakeful.stores.origins import was_restored
from wakeful.stores.verbs.effects import OpenEffect, SaveEffect
from wakeful.stores.verbs.operation_keys import OpenOnce, SaveOnce
from wakeful.values import arguments_of, plain, schema_of_result

# Nothing is called, so no rule is asked.
NOT_ASKED = Judgement(ALLOWED)
REPEATED = "retrying"  # the settlement of an effect that a person said is to be repeated
# Branches of a handler may ask for their effects one after the other, each after a turn of the event loop.
TURNS_TO_ASK = 25
RESTORED = "the store was restored from a backup, and the call may have been made after that backup"


def new_effect(attempt: Attempt, action: Action[..., Any], identifier: str, text: str) -> Effect:
    """A new effect of this attempt, at the next place in the trace."""
    record, options = attempt.record, action.options
    position, record.position = record.position, record.position + 1
    return Effect(
        identifier,
        action.name,
        action.reference,
        options.safety,
        "intent",
        text,
        attempt=attempt.number,
        position=position,
        once=None if options.once is None else key_of(action, text),
    )


async def open_effect(attempt: Attempt, action: Action[..., Any], identifier: str, text: str) -> Effect:
    """Store the intent, if policy allows it and no check needs a person."""
    await attempt.record.save_facts()
    arguments, keywords = action.read(text)
    reason = await changed_arguments(attempt, action, text) or await failed_check(action, arguments, keywords)
    known = attempt.ledger.find(identifier)
    effect = new_effect(attempt, action, identifier, text) if known is None else known
    if (
        effect.once is None and action.options.once is not None
    ):  # it was staged once: the commit stores only the arguments
        effect.once = key_of(action, text)
    effect.state, effect.reason = await beginning(attempt) if reason is None else ("held", reason)
    return await opened(attempt, action, effect)


async def open_staged(attempt: Attempt, action: Action[..., Any], effect: Effect) -> Effect:
    """Store the intent of a staged effect, if policy allows it now. Its arguments were checked when it was staged."""
    effect.state, effect.reason = await beginning(attempt)
    effect.attempt = attempt.number
    return await opened(attempt, action, effect)


async def beginning(attempt: Attempt) -> tuple[Literal["intent", "unknown"], str | None]:
    """The first state of an effect. In a run that was restored from a backup, the effect may have been done after that
    backup, which the restored ledger cannot know: it is settled like a call whose process died.
    """
    store = attempt.surroundings.store
    if store.database.restored_before and await was_restored(store.database, attempt.claim):
        return "unknown", RESTORED
    return "intent", None


async def opened(attempt: Attempt, action: Action[..., Any], effect: Effect) -> Effect:
    """Ask policy just before the transaction that stores the intent. An effect that it does not allow is refused or held."""
    answer = await store_intent(attempt, action, effect)
    if isinstance(answer, Decision):
        raise denied(action, answer)
    if answer.state == "held":
        await attempt.hold(f"{action.name}: {answer.reason}")
    return answer


def denied(action: Action[..., Any], decision: Decision) -> Denied:
    """The error for the handler. The decision itself is stored already."""
    error = Denied(f"action {action.name}: {decision.rule}: {decision.reason}")
    error.stored = True
    return error


async def store_intent(
    attempt: Attempt, action: Action[..., Any], effect: Effect, *, undoes: Effect | None = None
) -> Effect | Decision:
    """Store an intent: the effect as it is stored, which is held if a person must decide, or the decision that denies it. Raises
    CountedOn if another run uses the result of the effect that this one undoes.
    """
    around, claim = attempt.surroundings, attempt.claim
    while True:
        judgement = judge(attempt, action, effect) if effect.state == "intent" else NOT_ASKED
        request = (
            OpenEffect(
                claim,
                around.app,
                effect,
                judgement,
                locks_held(claim),
                undoes_key=None if undoes is None else undoes.business_key,
            )
            if effect.once is None
            else OpenOnce(claim, around.app, effect, judgement, locks_held(claim), span=action.options.once_for)
        )
        declares = action.reference not in around.declared and effect.undoes is None
        if declares:
            request.declares = (around.app, action.reference, action.name, schema_of_result(action.function))
        try:
            stored = await around.store.do(request)
        except PolicyMoved:  # another policy is in force by now: judge by that one
            await around.policies.look()
            continue
        if declares:
            around.declared.add(action.reference)
        return stored


async def store_call(attempt: Attempt, action: Action[..., Any], effect: Effect) -> Decision | None:
    """Store that an effect is about to be called again, if policy allows it now. Returns the decision if it does not: then the effect is
    stored as it was.
    """
    around, claim = attempt.surroundings, attempt.claim
    while True:
        judgement = judge(attempt, action, effect)
        try:
            if effect.once is not None:
                return await around.store.do(SaveOnce(claim, around.app, effect, judgement))
            return await around.store.do(SaveEffect(claim, effect, judgement))
        except PolicyMoved:
            await around.policies.look()


def judge(attempt: Attempt, action: Action[..., Any], effect: Effect) -> Judgement:
    """Policy's judgement about an effect, just before the transaction that stores its intent. A person who said that it is to be repeated
    has said yes to what a rule asks or holds, and to nothing that a rule denies.
    """
    judgement = attempt.surroundings.policies.judge(facts_of(attempt, action, effect))
    decision = judgement.decision
    if decision.broken:
        attempt.surroundings.on_broken_rule(decision)
    if decision.answer in {"ask", "hold"} and effect.settlement == REPEATED:
        reason = f"{effect.settled_by} said that it is to be repeated"
        judgement = replace(judgement, decision=replace(decision, answer="allow", reason=reason))
    effect.rule, effect.policy = judgement.decision.rule, judgement.version
    return judgement


def facts_of(attempt: Attempt, action: Action[..., Any], effect: Effect) -> EffectFacts:
    """The facts about an effect. Arguments by name are only read if a policy can ask for them."""
    around = attempt.surroundings
    facts = EffectFacts(
        around.app,
        attempt.agent,
        around.owners.get(attempt.agent),
        attempt.event,
        around.clock.now(),
        action.name,
        action.options.risk,
        effect.arguments,
    )
    if not around.policies.has_text:
        return facts
    return replace(
        facts,
        by_name=arguments_by_name(action, effect.arguments),
        run={"id": attempt.id, "attempt": attempt.number, "agent": attempt.agent},
    )


async def store_held(attempt: Attempt, effect: Effect, undoes: Effect) -> None:
    """Store an undo that is held from the start. Policy is not asked, because nothing is called."""
    request = OpenEffect(attempt.claim, attempt.app, effect, NOT_ASKED, undoes_key=undoes.business_key)
    await attempt.surroundings.store.do(request)


async def changed_arguments(attempt: Attempt, action: Action[..., Any], text: str) -> str | None:
    """The reason to hold, if an earlier attempt did this with other arguments. Other branches get a few turns to ask
    for theirs.
    """
    for _ in range(TURNS_TO_ASK - 1):
        if not attempt.ledger.not_asked_for(action.name):
            return None
        await asyncio.sleep(0)
    return other_arguments(attempt.ledger.not_asked_for(action.name), text)


def other_arguments(before: Sequence[Effect], text: str) -> str | None:
    """What an earlier attempt did and this one does not ask for again, in words; None if there is nothing."""
    if not before:
        return None
    was, now = (redact(arguments_of(from_json(stored)))[:ARGUMENTS_SHOWN] for stored in (before[0].arguments, text))
    return f"arguments changed: was {was}, now {now}"


async def failed_check(action: Action[..., Any], arguments: Sequence[Any], keywords: dict[str, Any]) -> str | None:
    """The first check of an action's arguments that fails, in words; None if all pass."""
    for check in action.options.checks:
        name = getattr(check, "__name__", repr(check))
        try:
            answer = await call(check, tuple(arguments), keywords, what=f"check {name}", limit=CHECK_LIMIT)
        except Exception as error:
            return plain(f"check {name}: {type(error).__name__}: {words_of(error)}")
        if answer is False or isinstance(answer, str):
            return plain(f"check {name}: {answer or 'did not pass'}")
    return None
