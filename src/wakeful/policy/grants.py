"""Which grants apply to an effect that a rule asks about: their conditions, judged before the transaction."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from wakeful.cel_rules import CelMistake, RuleExpression, compile_rule
from wakeful.policy.facts import EffectFacts
from wakeful.policy.judgement import Judgement
from wakeful.policy.rule import given_by


def may_ask(judgement: Judgement) -> bool:
    """Whether the final answer may be "ask". A counted rule is known only in the transaction."""
    return judgement.decision.answer == "ask" or any(one.decision.answer == "ask" for one in judgement.counted)


def that_apply(grants: Iterable[tuple[str, str | None]], facts: EffectFacts) -> tuple[str, ...]:
    """The ids of the grants whose conditions are true. A condition that is unknown counts against: that grant does not apply."""
    given = None
    found = []
    for grant, condition in grants:
        if condition is not None:
            given = given or given_by(facts)
            compiled = _compiled(condition)
            if compiled is None or compiled.truth(given) is not True:
                continue
        found.append(grant)
    return tuple(found)


def compile_condition(condition: str) -> RuleExpression:
    """The condition of a grant; the same names as in a rule at: effect. Raises CelMistake."""
    return compile_rule(condition, "effect", boolean=True)


@lru_cache(maxsize=256)
def _compiled(condition: str) -> RuleExpression | None:
    """None: this version cannot read it, so it does not apply."""
    try:
        return compile_condition(condition)
    except CelMistake:
        return None
