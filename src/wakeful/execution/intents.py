"""The intent of an effect: stored, and allowed by policy, before the call is made."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal

from pydantic_core import from_json

from wakeful.errors import Denied, Halted, PolicyMoved
from wakeful.execution.actions import Action
from wakeful.execution.approving import asked, listed, no_longer_wanted, questions_of, withdrawn
from wakeful.execution.attempt import Attempt
from wakeful.execution.business_key import arguments_by_name, key_of
from wakeful.execution.checkpoint import ARGUMENTS_SHOWN
from wakeful.execution.granting import with_grants
from wakeful.execution.judging import facts_of, failed_check, judge
from wakeful.execution.locks import locks_held
from wakeful.model import Decision, Effect
from wakeful.policy.decide import ALLOWED
from wakeful.policy.judgement import Judgement
from wakeful.redaction import redact
from wakeful.stores.origins import was_restored
from wakeful.stores.verbs.consent import AwaitsApproval
from wakeful.stores.verbs.effects import OpenEffect, SaveEffect
from wakeful.stores.verbs.operation_keys import OpenOnce, SaveOnce
from wakeful.values import arguments_of, schema_of_result

# Nothing is called, so no rule is asked.
NOT_ASKED = Judgement(ALLOWED)
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
    return ("unknown", RESTORED) if await may_be_done_since_backup(attempt) else ("intent", None)


async def may_be_done_since_backup(attempt: Attempt) -> bool:
    """Whether effects of this run may have been done after the backup that its store was restored from."""
    database = attempt.surroundings.store.database
    return bool(database.restored_before) and await was_restored(database, attempt.claim)


async def opened(attempt: Attempt, action: Action[..., Any], effect: Effect) -> Effect:
    """Ask policy just before the transaction that stores the intent. An effect that it does not allow is refused, waits or is held."""
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
    """Store an intent: the effect as it is stored, which waits or is held if a person must decide, or the decision that denies it. Raises
    CountedOn if another run uses the result of the effect that this one undoes. Ends the attempt if a halt stops the effect.
    """
    around, claim = attempt.surroundings, attempt.claim
    while True:
        judgement = await judged(attempt, action, effect) if effect.state == "intent" else NOT_ASKED
        questions = questions_of(attempt, action, effect, judgement)
        request = (
            OpenEffect(
                claim,
                around.app,
                effect,
                judgement,
                questions,
                locks_held(claim),
                undoes_key=None if undoes is None else undoes.business_key,
            )
            if effect.once is None
            else OpenOnce(
                claim, around.app, effect, judgement, questions, locks_held(claim), span=action.options.once_for
            )
        )
        declares = action.reference not in around.declared and effect.undoes is None
        if declares:
            request.declares = (around.app, action.reference, action.name, schema_of_result(action.function))
        try:
            stored = await around.store.do(request)
        except PolicyMoved:  # another policy is in force by now: judge by that one
            await around.policies.look()
            continue
        except Halted as halted:
            await attempt.park_halted(halted)
        if declares:
            around.declared.add(action.reference)
        if (
            isinstance(stored, Effect)
            and stored.state == "waiting"
            and stored.rule is not None
            and stored.rule in questions
        ):
            attempt.ledger.judged_by[effect.id] = judgement.version
            asked(attempt, stored, questions[stored.rule])
        return stored


class MayBeDone(Exception):
    """The effect is not called: it may have been done already, and that is found out first."""


async def store_call(
    attempt: Attempt, action: Action[..., Any], effect: Effect, *, in_doubt: Callable[[], Awaitable[bool]]
) -> Decision | AwaitsApproval | None:
    """Store that an effect is about to be called again, if policy allows it now. Returns the decision if it does not: then the effect is
    stored as it was; or the approval that it waits for now. If a halt stops the call, it raises Halted, and the effect stays as it was.
    Unless people are asked first, it raises MayBeDone if `in_doubt` says so.
    """
    around, claim = attempt.surroundings, attempt.claim
    while True:
        judgement = await judged(attempt, action, effect)
        asks_first = (judgement.asks or judgement.holds) and not judgement.grants
        if not asks_first and await in_doubt():
            raise MayBeDone
        questions = questions_of(attempt, action, effect, judgement)
        try:
            if effect.once is not None:
                stored = await around.store.do(SaveOnce(claim, around.app, effect, judgement, questions))
            else:
                stored = await around.store.do(SaveEffect(claim, effect, judgement, questions))
        except PolicyMoved:
            await around.policies.look()
            continue
        if not isinstance(stored, Decision) and effect.approval is not None:
            withdrawn(attempt, effect.id, kept=None if stored is None else stored.approval)
        if isinstance(stored, AwaitsApproval):
            attempt.ledger.judged_by[effect.id] = judgement.version
            question = questions.get(stored.decision.rule)
            if question is not None and question.id == stored.approval:
                asked(attempt, effect, question)
        return stored


async def judged(attempt: Attempt, action: Action[..., Any], effect: Effect) -> Judgement:
    """Policy's judgement, with the grants that may serve it if it asks a person."""
    judgement = judge(attempt, action, effect)
    if judgement.asks or judgement.counted:
        return await with_grants(attempt, action, effect, judgement, facts_of(attempt, action, effect))
    return judgement


async def store_held(attempt: Attempt, effect: Effect, undoes: Effect) -> None:
    """Store an undo that is held from the start. Policy is not asked, because nothing is called."""
    request = OpenEffect(attempt.claim, attempt.app, effect, NOT_ASKED, undoes_key=undoes.business_key)
    await attempt.surroundings.store.do(request)


async def changed_arguments(attempt: Attempt, action: Action[..., Any], text: str) -> str | None:
    """The reason to hold, if an earlier attempt did this with other arguments. Other branches get a few turns to ask
    for theirs.
    """
    ledger, name = attempt.ledger, action.name
    for _ in range(TURNS_TO_ASK - 1):
        if not ledger.not_asked_for(name) and not ledger.waits_for_nothing(name):
            return None
        await asyncio.sleep(0)
    for waiting in ledger.waits_for_nothing(name):  # what was asked is not what would happen
        await no_longer_wanted(attempt, waiting, "its run asks for other arguments")
    return other_arguments(attempt, action, attempt.ledger.not_asked_for(action.name), text)


def other_arguments(attempt: Attempt, action: Action[..., Any], before: Sequence[Effect], text: str) -> str | None:
    """What an earlier attempt did and this one does not ask for again, in words, without what the policy redacts; None if there is
    nothing.
    """
    if not before:
        return None
    policy = attempt.surroundings.policies.policy
    given = (before[0].arguments, text)
    if policy is not None and policy.redact:
        shown = [f"({listed(policy.redacted(arguments_by_name(action, stored)))})" for stored in given]
    else:
        shown = [arguments_of(from_json(stored)) for stored in given]
    was, now = (redact(one)[:ARGUMENTS_SHOWN] for one in shown)
    return f"arguments changed: was {was}, now {now}"
