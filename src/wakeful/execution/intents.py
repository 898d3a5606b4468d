"""The intent of an effect: stored, and allowed by policy, before the call is made."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Literal

from pydantic_core import from_json

from wakeful.errors import Denied
from wakeful.execution.actions import Action
from wakeful.execution.attempt import Attempt
from wakeful.execution.business_key import key_of
from wakeful.execution.checkpoint import ARGUMENTS_SHOWN
from wakeful.execution.locks import locks_held
from wakeful.functions.call import CHECK_LIMIT, call
from wakeful.model import Decision, Effect
from wakeful.policy.decide import ALLOWED, EffectFacts
from wakeful.redaction import redact
from wakeful.stored_errors import words_of
from wakeful.stores.origins import was_restored
from wakeful.stores.verbs.effects import OpenEffect
from wakeful.stores.verbs.operation_keys import OpenOnce
from wakeful.values import arguments_of, plain, schema_of_result

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
        if answer.answer == "deny":
            raise Denied(f"action {action.name}: {answer.rule}: {answer.reason}")
        effect.state, effect.reason = "held", f"{answer.rule}: {answer.reason}"
        answer = await store_intent(attempt, action, effect, judged=True)
    effect = answer if isinstance(answer, Effect) else effect
    if effect.state == "held":
        await attempt.hold(f"{action.name}: {effect.reason}")
    return effect


async def store_intent(
    attempt: Attempt, action: Action[..., Any], effect: Effect, *, judged: bool = False, undoes: Effect | None = None
) -> Effect | Decision:
    """Store an intent, if policy allows it. `judged`: policy already said that a person must decide. Raises CountedOn
    if another run uses the result of the effect that this one undoes.
    """
    around, claim = attempt.surroundings, attempt.claim
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
    decision = ALLOWED if judged else around.judge(facts)
    request = (
        OpenEffect(
            claim,
            around.app,
            effect,
            decision,
            locks_held(claim),
            undoes_key=None if undoes is None else undoes.business_key,
        )
        if effect.once is None
        else OpenOnce(claim, around.app, effect, decision, locks_held(claim), span=action.options.once_for)
    )
    if action.reference in around.declared or effect.undoes is not None:
        return await around.store.do(request)
    request.declares = (around.app, action.reference, action.name, schema_of_result(action.function))
    stored = await around.store.do(request)
    around.declared.add(action.reference)
    return stored


async def store_held(attempt: Attempt, effect: Effect, undoes: Effect) -> None:
    """Store an undo that is held from the start. Policy is not asked, because nothing is called."""
    request = OpenEffect(attempt.claim, attempt.app, effect, ALLOWED, undoes_key=undoes.business_key)
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
