"""Which agents an event is for.

    type ──► plan (cached per type) ──► agents whose pattern fits ──► `where` of each ──► matched, or not and why

A trigger that reads events from its own place names that source, and ignores events of other sources, regardless of
their type. An agent whose pattern does not fit is not listed: the event does not concern it. An agent whose pattern
fits but whose condition does not hold is listed as not matched, with the reason, so that "did nothing, because" can be
shown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from wakeful.cel import Match
from wakeful.model import Event

WILDCARD = "*"
PLAN_LIMIT = 4_096


class Selector(Protocol):
    """The parts of a trigger that routing reads."""

    @property
    def type(self) -> str:
        """An exact event type, or a pattern with wildcards."""
        ...

    @property
    def source(self) -> str | None:
        """The only source whose events it takes; None: any."""
        ...

    @property
    def where(self) -> str | None:
        """A condition on the event, or None."""
        ...

    def describe(self) -> str: ...

    def matches(self, event: Event) -> Match: ...


@dataclass(frozen=True, slots=True)
class Routing:
    """Whether an event is for one agent."""

    agent: str
    matched: bool
    reason: str
    exhausted: bool = (
        False  # a condition exceeded its budget and no other one matched: it is unknown whether the agent is meant
    )


@dataclass(slots=True)
class _Plan:
    """The routing of one event type: the agents that may be meant and, if no condition must be evaluated, the answer."""

    candidates: list[tuple[str, list[Selector]]]
    answer: list[Routing] | None


class Router:
    """Finds the agents of an event, in the order in which they were declared."""

    def __init__(self, routes: Sequence[tuple[str, Sequence[Selector]]]) -> None:
        self._routes = [(agent, list(selectors)) for agent, selectors in routes]
        self._exact: dict[str, list[tuple[int, int]]] = {}
        self._patterns: list[tuple[Callable[[str], bool], tuple[int, int]]] = []
        for position, (_, selectors) in enumerate(self._routes):
            for number, selector in enumerate(selectors):
                if WILDCARD in selector.type:
                    self._patterns.append((type_matcher(selector.type), (position, number)))
                else:
                    self._exact.setdefault(selector.type, []).append((position, number))
        self._plans: dict[tuple[str, str | None], _Plan] = {}
        # The sources that a trigger names. All other sources are routed alike.
        self._sources = frozenset(
            one.source for _, selectors in self._routes for one in selectors if one.source is not None
        )

    def route(self, event: Event) -> list[Routing]:
        """The agents whose pattern fits the event's type, each matched or not, with the reason."""
        place = (event.type, event.source if event.source in self._sources else None)
        plan = self._plans.get(place) or self._make_plan(*place)
        if plan.answer is not None:
            return plan.answer.copy()
        return [_ask(agent, selectors, event) for agent, selectors in plan.candidates]

    def _make_plan(self, kind: str, source: str | None) -> _Plan:
        fitting = list(self._exact.get(kind, ()))
        fitting += [place for fits, place in self._patterns if fits(kind)]
        by_agent: dict[int, list[int]] = {}
        for position, number in sorted(fitting):
            by_agent.setdefault(position, []).append(number)
        candidates: list[tuple[str, list[Selector]]] = []
        for position, numbers in by_agent.items():
            agent, selectors = self._routes[position]
            chosen = [one for number in numbers if (one := selectors[number]).source in {None, source}]
            if not chosen:
                continue
            free = next((selector for selector in chosen if asks_nothing(selector)), None)
            candidates.append((agent, [free] if free is not None else chosen))
        answer = None
        if all(asks_nothing(selectors[0]) for _, selectors in candidates):
            answer = [Routing(agent, matched=True, reason=selectors[0].describe()) for agent, selectors in candidates]
        plan = _Plan(candidates, answer)
        # Types come from outside and may be invented without end: start over rather than grow; it costs microseconds.
        if len(self._plans) >= PLAN_LIMIT:
            self._plans.clear()
        self._plans[kind, source] = plan
        return plan


def asks_nothing(selector: Selector) -> bool:
    """Whether the type alone decides. Not for a trigger with its own source: it may take only some operations of it."""
    return selector.where is None and selector.source is None


def _ask(agent: str, selectors: list[Selector], event: Event) -> Routing:
    reasons = []
    exhausted = False
    for selector in selectors:
        if asks_nothing(selector):
            return Routing(agent, matched=True, reason=selector.describe())
        match = selector.matches(event)
        if match.matched:
            return Routing(agent, matched=True, reason=match.reason)
        reasons.append(match.reason)
        exhausted = exhausted or match.exhausted
    return Routing(agent, matched=False, reason="; ".join(reasons), exhausted=exhausted)


def type_matcher(pattern: str) -> Callable[[str], bool]:
    """A function that says whether a type fits a pattern, in which `*` stands for any sequence of characters."""
    first, *rest = pattern.split(WILDCARD)
    if not rest:
        return pattern.__eq__
    *middle, last = rest
    # Atomic groups: each middle part takes its first fit and never gives it back, so that no type, however long, makes
    # the search backtrack. The first fit is enough, as with every glob.
    groups = "".join(f"(?>.*?{re.escape(part)})" for part in middle)
    search = re.compile(f"{re.escape(first)}{groups}.*{re.escape(last)}", re.DOTALL).fullmatch
    return lambda kind: search(kind) is not None
