"""decide: the first rule that has an opinion decides, and a deny beats everything.

A rule is a pure function of facts. It returns a decision, or None when it has no opinion. Wakeful's own defaults are
rules like a user's. A rule that raises denies: what cannot be judged does not go ahead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from wakeful.clock import Microseconds
from wakeful.errors import words_of
from wakeful.model import Decision, Event


@dataclass(frozen=True, slots=True)
class AdmissionFacts:
    """What is known when an event is about to become a run."""

    app: str
    agent: str
    owner: str | None
    event: Event
    now: Microseconds


@dataclass(frozen=True, slots=True)
class EffectFacts:
    """What is known when an effect is about to happen: who, because of what, and what exactly."""

    app: str
    agent: str
    owner: str | None
    event: Event
    now: Microseconds
    action: str
    risk: str
    arguments: str


Facts = AdmissionFacts | EffectFacts
Rule = Callable[[Any], Decision | None]


def admit_everything(facts: Facts) -> Decision | None:  # noqa: ARG001 a rule's shape
    """The last rule: whoever subscribed to an event may handle it."""
    return ALLOWED


ALLOWED = Decision("allow", rule="admit_everything", reason="the agent subscribed to it")
# In this order. Rules about loops, budgets and quiet hours come before the last one.
DEFAULT_RULES: tuple[Rule, ...] = (admit_everything,)


def answer_of(rule: Callable[[Any], object], facts: Facts) -> Decision | None:
    """What a rule says; TypeError when it says something else than a decision."""
    answer = rule(facts)
    if answer is None or isinstance(answer, Decision):
        return answer
    message = f"it answered {answer!r}, which is neither a Decision nor None"
    raise TypeError(message)


def decide(facts: Facts, rules: Sequence[Rule] = DEFAULT_RULES) -> Decision:
    """The answer of the rules. A deny anywhere in the list wins over an allow before it."""
    first: Decision | None = None
    for rule in rules:
        try:
            decision = answer_of(rule, facts)
        except Exception as error:  # a broken rule denies
            name = getattr(rule, "__name__", repr(rule))
            reason = f"the rule failed: {type(error).__name__}: {words_of(error)}"
            return Decision("deny", rule=name, reason=reason, broken=True)
        if decision is None:
            continue
        if decision.answer == "deny":
            return decision
        first = first or decision
    return first or Decision("deny", rule="none", reason="no rule allowed it")
