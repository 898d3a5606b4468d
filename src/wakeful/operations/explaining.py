"""The judgement of the policy in force about a stored event or effect: every rule with the reason why it applies or not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from wakeful.model import OWN_AGENTS, Decision
from wakeful.operations.policy_facts import (
    DENIED,
    RISK,
    RUN_FACTS,
    UNNAMED,
    Rebuilt,
    admission_facts,
    effect_facts,
    reads,
    rules_of,
)
from wakeful.policy.decide import AdmissionFacts, EffectFacts, consider, judge
from wakeful.policy.facts import place_of
from wakeful.policy.rule import Considered, FileRule, names_of
from wakeful.stores.reads import ReadsDatabase
from wakeful.stores.verbs.policies import AdmissionToJudge, EffectToJudge

if TYPE_CHECKING:
    from wakeful.operations.declared import Declared
    from wakeful.policy.text import Policy

OWN = "one of Wakeful's own agents: no rule is asked"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A rule, and whether its selectors fit."""

    considered: Considered
    fits: bool


@dataclass(frozen=True, slots=True)
class Explained:
    """One place where policy is asked. `decision` is None if nothing can be judged; `beyond` are counted rules that would decide
    beyond their count.
    """

    at: Literal["admission", "effect"]
    id: str
    agent: str
    action: str | None
    then: str | None  # what happened: the state of the admission or the effect
    rule: str | None  # the rule that decided then, if it is stored
    version: str | None
    decision: Decision | None
    rules: Sequence[Candidate]
    lacks: Sequence[str]


async def admissions_of(reads: ReadsDatabase, event: str) -> list[AdmissionToJudge]:
    return [AdmissionToJudge(*row) for row in await reads.fetch("admissions_of_event", event)]


async def effect_of(reads: ReadsDatabase, identifier: str) -> list[EffectToJudge]:
    return [EffectToJudge(*row) for row in await reads.fetch("effect_to_judge", identifier)]


async def effects_of(reads: ReadsDatabase, root: str) -> list[EffectToJudge]:
    return [EffectToJudge(*row) for row in await reads.fetch("effects_of_run_to_judge", root)]


async def denied_of(reads: ReadsDatabase, event: str, root: str | None = None) -> list[Explained]:
    """The effects of an event's runs, or of one run, that were denied, each with its last decision. The store keeps no more of them."""
    found: dict[str, Explained] = {}
    for identifier, agent, action, rule, version, reason, of in await reads.fetch("denied_effects", event):
        if root in {None, of}:
            lacks = [f"{DENIED}. Then: {reason}"]
            found[identifier] = Explained(
                "effect", identifier, agent, action, "denied", rule, version or None, None, (), lacks
            )
    return list(found.values())


def explain_admission(one: AdmissionToJudge, policy: Policy | None, code: Declared | None) -> Explained:
    decision, rules, lacks = _judged(one.agent, admission_facts(one, code), policy, code)
    return Explained("admission", one.run or one.event, one.agent, None, one.state, None, None, decision, rules, lacks)


def explain_effect(one: EffectToJudge, policy: Policy | None, code: Declared | None) -> Explained:
    decision, rules, lacks = _judged(one.agent, effect_facts(one, code), policy, code)
    return Explained("effect", one.id, one.agent, one.action, one.state, one.rule, one.policy, decision, rules, lacks)


def _judged(
    agent: str, rebuilt: Rebuilt, policy: Policy | None, code: Declared | None
) -> tuple[Decision | None, list[Candidate], list[str]]:
    if agent.startswith(OWN_AGENTS):
        return Decision("allow", rule="wakeful", reason=OWN), [], []
    if rebuilt.facts is None:
        return None, [], list(rebuilt.lacks)
    facts, rules = rebuilt.facts, rules_of(code)
    fitting = _fitting(facts, policy)
    found = [
        Candidate(one, one.where == "" or one.rule in fitting)  # a rule in Python looks at everything itself
        for one in consider(facts, rules, policy)
    ]
    decision = judge(facts, rules, policy).decision
    return decision, found, _lacking(rebuilt, policy, list(fitting.values()), decision)


def _fitting(facts: AdmissionFacts | EffectFacts, policy: Policy | None) -> dict[str, FileRule]:
    """The rules whose selectors fit, by id."""
    names = names_of(facts) | {"type": facts.event.type}
    found = () if policy is None else policy.rules_at(place_of(facts))
    return {rule.id: rule for rule in found if all(one.fits(names[one.name]) for one in rule.selectors)}


def _lacking(rebuilt: Rebuilt, policy: Policy | None, fitting: Sequence[FileRule], decision: Decision) -> list[str]:
    """The facts that are unknown and may have changed the answer."""
    matters = {
        UNNAMED: any(reads(rule, "arguments") for rule in fitting),
        RUN_FACTS: any(reads(rule, "facts") for rule in fitting),
        RISK: decision.rule == "default"
        or any(one.name == "risk" for rule in (policy.rules if policy is not None else ()) for one in rule.selectors),
    }
    return [one for one in rebuilt.lacks if matters.get(one, True)]
