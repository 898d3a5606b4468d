"""decide: the first rule with an opinion decides, and a deny beats everything.

A rule is a pure function of facts. It returns a decision, or None for no opinion. Wakeful's own defaults are rules like
a user's. A rule that raises denies: nothing happens that could not be judged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from wakeful.clock import Microseconds
from wakeful.model import Decision, Event
from wakeful.policy.loops import Chain, chain_depth, chain_rate
from wakeful.stored_errors import words_of


@dataclass(frozen=True, slots=True)
class AdmissionFacts:
    """The facts when an event is about to become a run."""

    app: str
    agent: str
    owner: str | None
    event: Event
    now: Microseconds
    chain: Chain | None = None  # the event's place in its chain; None: no run of ours caused it


@dataclass(frozen=True, slots=True)
class EffectFacts:
    """The facts when an effect is about to happen: who, because of which event, and what exactly."""

    app: str
    agent: str
    owner: str | None
    event: Event
    now: Microseconds
    action: str
    risk: str
    arguments: str


@dataclass(frozen=True, slots=True)
class ScheduleFacts:
    """The facts when an agent is about to make, change or remove a schedule: who, because of which event, and which
    schedule.
    """

    app: str
    agent: str
    owner: str | None
    event: Event
    now: Microseconds
    schedule: str
    target: str  # the agent that it wakes
    was: str | None  # the agent that it woke until now; None for a new one
    rule: str  # the schedule, as code would write it
    verb: Literal["add", "edit", "remove"]


Facts = AdmissionFacts | EffectFacts | ScheduleFacts
Rule = Callable[[Any], Decision | None]


def schedule_itself(facts: Facts) -> Decision | None:
    """An agent may schedule itself. It may schedule others only if another rule allows it."""
    if isinstance(facts, ScheduleFacts) and facts.target == facts.agent and facts.was in {None, facts.agent}:
        return Decision("allow", rule="schedule_itself", reason="it wakes itself")
    return None


def admit_everything(facts: Facts) -> Decision | None:
    """The last rule: an agent that subscribed to an event may handle it."""
    return None if isinstance(facts, ScheduleFacts) else ALLOWED


ALLOWED = Decision("allow", rule="admit_everything", reason="the agent subscribed to it")
# In this order. Rules about budgets and quiet hours come before the last one.
DEFAULT_RULES: tuple[Rule, ...] = (schedule_itself, chain_depth, chain_rate, admit_everything)


def answer_of(rule: Callable[[Any], object], facts: Facts) -> Decision | None:
    """A rule's answer. TypeError if it is neither a decision nor None."""
    answer = rule(facts)
    if answer is None or isinstance(answer, Decision):
        return answer
    message = f"it answered {answer!r}, which is neither a Decision nor None"
    raise TypeError(message)


def decide(facts: Facts, rules: Sequence[Rule] = DEFAULT_RULES) -> Decision:
    """The decision of the rules. A deny anywhere in the list wins over an allow before it."""
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
    return first or Decision("deny", rule="none", reason=unallowed(facts))


def unallowed(facts: Facts) -> str:
    """The reason for denying what no rule has allowed."""
    if not isinstance(facts, ScheduleFacts):
        return "no rule allowed it"
    whose = facts.target if facts.was in {None, facts.target, facts.agent} else facts.was
    return f"no rule lets agent {facts.agent} {facts.verb} schedules of agent {whose}: by default an agent schedules only itself"
