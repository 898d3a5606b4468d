"""judge: all rules are asked, and the strictest answer of those that apply wins. Their order changes nothing.

A rule in Python is a pure function of facts. It returns a decision, or None for no opinion. Wakeful's own defaults are
rules like a user's. A rule that raises denies: nothing happens that could not be judged. Rules of policy files
(rule.py) never raise: an unknown condition counts against.

If no rule applies, events are admitted, effects of low and medium risk are allowed, effects of high risk are denied,
and an agent may not schedule another one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from wakeful.model import OWN_AGENTS, Decision
from wakeful.policy.facts import AdmissionFacts, EffectFacts, Facts, FactValue, Rule, ScheduleFacts, fact, place_of
from wakeful.policy.judgement import STRICTNESS, Counted, Judgement, in_order, strictest
from wakeful.policy.loops import chain_depth, chain_rate
from wakeful.policy.rule import Considered, given_by
from wakeful.stored_errors import words_of

if TYPE_CHECKING:
    from wakeful.policy.text import Policy

__all__ = [
    "ALLOWED",
    "DEFAULT_RULES",
    "AdmissionFacts",
    "EffectFacts",
    "FactValue",
    "Facts",
    "Rule",
    "ScheduleFacts",
    "consider",
    "decide",
    "fact",
    "files_say",
    "judge",
    "schedule_itself",
    "unallowed",
]


def schedule_itself(facts: Facts) -> Decision | None:
    """An agent may schedule itself. It may schedule others only if another rule allows it."""
    if isinstance(facts, ScheduleFacts) and facts.target == facts.agent and facts.was in {None, facts.agent}:
        return Decision("allow", rule="schedule_itself", reason="it wakes itself")
    return None


FilesSay = tuple[Sequence[Decision], Sequence[Counted]]
DEFAULT_RULES: tuple[Rule, ...] = (schedule_itself, chain_depth, chain_rate)
ALLOWED = Decision("allow", rule="admit_everything", reason="the agent subscribed to it")
_BY_RISK = {
    risk: Decision("allow", rule="default", reason=f"its risk is {risk}, and no rule says otherwise")
    for risk in ("low", "medium")
}
_ADMITTED = Judgement(ALLOWED, is_default=True)
_JUDGED_BY_RISK = {risk: Judgement(decision, is_default=True) for risk, decision in _BY_RISK.items()}


def decide(facts: Facts, rules: Sequence[Rule] = DEFAULT_RULES) -> Decision:
    """The decision of rules in Python."""
    return judge(facts, rules).decision


def judge(
    facts: Facts, rules: Sequence[Rule] = DEFAULT_RULES, policy: Policy | None = None, said: FilesSay | None = None
) -> Judgement:
    """The answer of all rules to some facts. Rules of a policy do not apply to Wakeful's own agents. `said`: what `files_say` about these
    facts, if they were asked before.
    """
    opinions: list[Decision] = []
    for rule in rules:
        try:
            opinion = rule(facts)
            if opinion is not None:
                opinions.append(_checked(opinion))
        except Exception as error:  # a broken rule denies
            opinions.append(_broken(rule, error))
    version = None if policy is None else policy.version
    if policy is None or facts.agent.startswith(OWN_AGENTS):
        return _judgement(facts, opinions, version) if opinions else _default(facts, version)
    decisions, counted = files_say(facts, policy) if said is None else said
    opinions += decisions
    if not opinions and not counted:
        return _default(facts, version)
    return _judgement(facts, opinions, version, counted)


def files_say(facts: Facts, policy: Policy) -> FilesSay:
    """The answers of the policy's rules that apply, and those that apply only beyond their count."""
    candidates, needs = policy.candidates(facts)
    decisions: list[Decision] = []
    counted: list[Counted] = []
    if candidates:
        given = given_by(facts, needs)
        for candidate in candidates:
            found = candidate.opinion(given)
            if isinstance(found, Decision):
                decisions.append(found)
            elif found is not None:
                counted.append(found)
    return decisions, counted


def consider(facts: Facts, rules: Sequence[Rule] = DEFAULT_RULES, policy: Policy | None = None) -> list[Considered]:
    """Every rule that was asked, with the reason why it applies or not; at last the default, if no rule applies."""
    found: list[Considered] = []
    for rule in rules:
        try:
            opinion = rule(facts)
            opinion = None if opinion is None else _checked(opinion)
        except Exception as error:
            opinion = _broken(rule, error)
        if opinion is None:
            found.append(Considered(_name(rule), applies=False, why="it has no opinion"))
        else:
            found.append(Considered(opinion.rule, True, opinion.reason, answer=opinion.answer, mode=opinion.mode))
    if policy is not None and not facts.agent.startswith(OWN_AGENTS):
        found += [rule.considered(facts) for rule in policy.rules_at(place_of(facts))]
    if not any(one.applies and one.mode == "enforce" and not one.counted for one in found):
        default = _default(facts, None).decision
        found.append(Considered(default.rule, applies=True, why=default.reason, answer=default.answer))
    return found


def _checked(opinion: object) -> Decision:
    """The answer of a rule. TypeError if it is not a decision."""
    if isinstance(opinion, Decision) and opinion.answer in STRICTNESS:
        return opinion
    message = f"it answered {opinion!r}, which is neither a Decision nor None"
    raise TypeError(message)


def _broken(rule: Rule, error: Exception) -> Decision:
    reason = f"the rule failed: {type(error).__name__}: {words_of(error)}"
    return Decision("deny", rule=_name(rule), reason=reason, broken=True)


def _name(rule: Rule) -> str:
    name: str = getattr(rule, "__name__", None) or repr(rule)
    return name


def _judgement(
    facts: Facts, opinions: Sequence[Decision], version: str | None, counted: Sequence[Counted] = ()
) -> Judgement:
    enforced = [one for one in opinions if one.mode == "enforce"]
    asks = {one.rule for one in enforced if one.answer == "ask"}
    holds = {one.rule for one in enforced if one.answer == "hold"}
    return Judgement(
        strictest(enforced) if enforced else _default(facts, version).decision,
        version,
        tuple(sorted(counted, key=_rule_of)) if counted else (),
        in_order(one for one in opinions if one.mode == "watch") if len(enforced) < len(opinions) else (),
        tuple(sorted(asks)) if asks else (),
        tuple(sorted(holds)) if holds else (),
        is_default=not enforced,
    )


def _rule_of(counted: Counted) -> str:
    return counted.rule


def _default(facts: Facts, version: str | None) -> Judgement:
    """The answer if no rule applies. With a policy, it is that version of the policy that says nothing."""
    if isinstance(facts, AdmissionFacts):
        judgement = _ADMITTED
    elif isinstance(facts, EffectFacts) and facts.risk in _JUDGED_BY_RISK:
        judgement = _JUDGED_BY_RISK[facts.risk]
    else:
        rule = "none" if isinstance(facts, ScheduleFacts) else "high_risk"
        judgement = Judgement(Decision("deny", rule=rule, reason=unallowed(facts)), is_default=True)
    if version is None:
        return judgement
    known = judgement.decision
    return Judgement(Decision(known.answer, known.rule, known.reason, version), version, is_default=True)


def unallowed(facts: Facts) -> str:
    """The reason for denying what no rule has allowed."""
    if isinstance(facts, EffectFacts):
        return f"its risk is {facts.risk}, and no rule allows it: add a rule with answer allow or ask for action {facts.action}"
    if not isinstance(facts, ScheduleFacts):
        return "no rule allowed it"
    whose = facts.target if facts.was in {None, facts.target, facts.agent} else facts.was
    return f"no rule lets agent {facts.agent} {facts.verb} schedules of agent {whose}: by default an agent schedules only itself"
