"""Policy is asked about an effect: the facts, the judgement, and the checks of its arguments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from wakeful.execution.actions import Action
from wakeful.execution.attempt import Attempt
from wakeful.execution.business_key import arguments_as_called
from wakeful.execution.facts import known_facts
from wakeful.functions.call import CHECK_LIMIT, call
from wakeful.model import Effect
from wakeful.policy.decide import EffectFacts
from wakeful.policy.judgement import Judgement
from wakeful.stored_errors import words_of
from wakeful.values import plain


def judge(attempt: Attempt, action: Action[..., Any], effect: Effect) -> Judgement:
    """Policy's judgement about an effect, just before the transaction that stores its intent. The transaction adds what people have said
    yes to.
    """
    judgement = attempt.surroundings.policies.judge(facts_of(attempt, action, effect))
    decision = judgement.decision
    if decision.broken:
        attempt.surroundings.on_broken_rule(decision)
    effect.rule, effect.policy = judgement.decision.rule, judgement.version
    return judgement


def facts_of(attempt: Attempt, action: Action[..., Any], effect: Effect, *, named: bool = False) -> EffectFacts:
    """The facts about an effect. Arguments by name are only read if a policy can ask for them, or if they are asked for here."""
    around = attempt.surroundings
    facts = EffectFacts(
        around.app,
        attempt.agent,
        around.owners.get(attempt.agent),
        attempt.event,
        around.clock.now(),
        action.name,
        action.options.risk,
        effect.called_with,
    )
    if attempt.facts is not None or attempt.record.facts is not None:
        facts = replace(facts, facts=known_facts(attempt))
    if not (named or around.policies.has_text):
        return facts
    return replace(
        facts,
        by_name=arguments_as_called(action, effect.called_with),
        run={"id": attempt.id, "attempt": attempt.number, "agent": attempt.agent},
    )


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
