"""The terms of a rule that asks: who must approve, how many people, and until when. Made from `approve:` of the rule and the facts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from wakeful.cel_rules import Unknown
from wakeful.clock import Microseconds
from wakeful.model import digest
from wakeful.policy.facts import Facts
from wakeful.policy.judgement import Judgement
from wakeful.policy.rule import Approve
from wakeful.policy.text import Policy

USUAL = Approve()


@dataclass(frozen=True, slots=True)
class Ask:
    """The terms of one approval."""

    rule: str
    reason: str
    by: tuple[str, ...] = ()  # groups and people; empty: anybody
    of: int = 1
    within: Microseconds = USUAL.within
    valid: Microseconds = USUAL.valid
    edit: bool = False
    kept_out: tuple[str, ...] = ()
    escalate: tuple[tuple[Microseconds, tuple[str, ...]], ...] = ()
    unknown: str | None = None  # why it is not known who is kept out: then no person may answer


def asks_of(judgement: Judgement, facts: Facts, policy: Policy | None) -> Mapping[str, Ask]:
    """The terms of each rule that asks, or would ask beyond its count. Empty if none does."""
    rules = {
        *judgement.asks,
        *(one.rule for one in judgement.counted if one.decision.answer == "ask" and one.decision.mode == "enforce"),
    }
    if judgement.decision.answer == "ask":
        rules.add(judgement.decision.rule)
    return {rule: _ask_of(rule, judgement, facts, policy) for rule in sorted(rules)} if rules else {}


def _ask_of(name: str, judgement: Judgement, facts: Facts, policy: Policy | None) -> Ask:
    owner = () if facts.owner is None else (facts.owner,)
    reason = judgement.decision.reason if judgement.decision.rule == name else f"rule {name} asks"
    rule = None if policy is None else next((one for one in policy.rules if one.id == name), None)
    if rule is None:  # in Python
        return Ask(name, reason, owner)
    terms = rule.approve or USUAL
    kept_out = rule.kept_out(facts)
    return Ask(
        name,
        reason if judgement.decision.rule == name else rule.decision.reason,
        terms.by or owner,
        terms.of,
        terms.within,
        terms.valid,
        terms.edit,
        () if isinstance(kept_out, Unknown) else tuple(sorted(kept_out)),
        tuple((one.after, one.to) for one in terms.escalate),
        kept_out.why if isinstance(kept_out, Unknown) else None,
    )


def digest_of_what(action: str, arguments: str, rule: str) -> str:
    """The digest that an approval is bound to: exactly what would happen, and the rule that asks."""
    return digest("approve", action, arguments, rule)
