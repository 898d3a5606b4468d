"""Grants for an effect that a rule asks about. The store is asked only if the judgement may be "ask"."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from wakeful.execution.actions import Action
from wakeful.execution.attempt import Attempt
from wakeful.execution.business_key import arguments_as_called
from wakeful.model import Effect
from wakeful.policy.facts import EffectFacts
from wakeful.policy.grants import may_ask, that_apply
from wakeful.policy.judgement import Judgement
from wakeful.stores.verbs.grants import grants_for


async def with_grants(
    attempt: Attempt, action: Action[..., Any], effect: Effect, judgement: Judgement, facts: EffectFacts
) -> Judgement:
    """The judgement with the grants that may serve it. The transaction that begins the effect decides."""
    if not may_ask(judgement):
        return judgement
    store = attempt.surroundings.store
    found = await store.patiently(lambda: grants_for(store.database, attempt.app, attempt.agent, action.name))
    if not found:
        return judgement
    if not facts.run:  # without a policy file, nothing has asked for these yet
        run = {"id": attempt.id, "attempt": attempt.number, "agent": attempt.agent}
        facts = replace(facts, by_name=arguments_as_called(action, effect.called_with), run=run)
    return replace(judgement, grants=that_apply(found, facts))
