"""A rule of a policy file: selectors, conditions, and the answer if all of them fit.

An unknown condition (a missing field, another type, a stale fact, …) counts against: an allow does not apply, any other
rule does. Nothing here raises, for any facts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, NamedTuple

from wakeful.cel_rules import NOTHING_SHARED, REDACTED, Given, Needs, RuleExpression, Unknown, text_of
from wakeful.cel_text import Path
from wakeful.clock import SECOND, Microseconds, written
from wakeful.model import Answer, Decision, PolicyMode, digest
from wakeful.policy.facts import SCHEDULE_ARGUMENTS, EffectFacts, Facts, FactValue, Place, ScheduleFacts, place_of
from wakeful.policy.judgement import Counted
from wakeful.rate import Rate
from wakeful.stored_errors import storable

HOUR: Microseconds = 3600 * SECOND
LONGEST_SUBJECT = 200  # characters; a longer one is shown and counted as its digest
_PLURALS = {"effect": "effects", "admission": "events", "schedule": "changes of schedules"}


@dataclass(frozen=True, slots=True)
class Selector:
    """One of `agent`, `action`, `type` and `risk`: names, or patterns in which * stands for any characters."""

    name: str
    patterns: tuple[str, ...]
    exact: frozenset[str] = field(init=False)
    globs: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "exact", frozenset(one for one in self.patterns if "*" not in one))
        object.__setattr__(self, "globs", tuple(one for one in self.patterns if "*" in one))

    def fits(self, name: str) -> bool:
        return name in self.exact or any(fits_pattern(name, one) for one in self.globs)

    def __str__(self) -> str:
        return " or ".join(self.patterns)


def fits_pattern(name: str, pattern: str) -> bool:
    """Whether the whole name fits a pattern; case counts. Takes time in proportion to both at worst."""
    first, *middle = pattern.split("*")
    if not middle:
        return name == pattern
    last = middle.pop()
    if len(name) < len(first) + len(last) or not name.startswith(first) or not name.endswith(last):
        return False
    at, end = len(first), len(name) - len(last)
    for part in middle:
        found = name.find(part, at, end)
        if found < 0:
            return False
        at = found + len(part)
    return True


@dataclass(frozen=True, slots=True)
class Escalation:
    """Who else may answer, after a time without an answer."""

    after: Microseconds
    to: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Approve:
    """Who may approve, how many of them, and for how long."""

    by: tuple[str, ...] = ()  # empty: the owner of the agent
    of: int = 1
    within: Microseconds = 4 * HOUR
    valid: Microseconds = 24 * HOUR
    edit: bool = False
    not_by: str | None = None  # CEL: the people who may not approve
    escalate: tuple[Escalation, ...] = ()


class Considered(NamedTuple):
    """Whether a rule applies to some facts, and why, for people. `unknown`: a part of it is not known. `counted`:
    it applies only beyond its count, which the store keeps.
    """

    rule: str
    applies: bool
    why: str
    unknown: bool = False
    answer: Answer | None = None
    mode: PolicyMode = "enforce"
    counted: bool = False
    where: str = ""  # FILE:LINE; '' for a rule in Python


@dataclass(slots=True, eq=False)
class FileRule:
    """A rule of a policy file, compiled."""

    id: str
    answer: Answer
    reason: str  # as given, or a sentence about the rule
    at: Place = "effect"
    selectors: tuple[Selector, ...] = ()
    when: RuleExpression | None = None
    unless: RuleExpression | None = None
    over: Rate | None = None
    per: RuleExpression | None = None
    mode: PolicyMode = "enforce"
    approve: Approve | None = None
    not_by: RuleExpression | None = None  # approve.not_by, compiled
    version: str = ""  # of its policy
    where: str = ""  # FILE:LINE
    hides: tuple[Path, ...] = ()  # the paths whose values are not to be shown
    decision: Decision = field(init=False)

    def __post_init__(self) -> None:
        beyond = "" if self.over is None else f" (more than {self.over.most:,} within {written(self.over.within)})"
        reason = self.reason + beyond
        self.decision = Decision(self.answer, self.id, reason, self.version, mode=self.mode)

    @property
    def expressions(self) -> list[RuleExpression]:
        """The conditions that every judgement evaluates."""
        return [one for one in (self.when, self.unless) if one is not None]

    def fits(self, names: Mapping[str, str]) -> bool:
        """Whether all selectors fit."""
        return all(one.fits(names.get(one.name, "")) for one in self.selectors)

    def opinion(self, given: Given) -> Decision | Counted | None:
        """Its answer to facts whose names it `fits`; None if it does not apply."""
        decision = self.decision
        if self.when is not None or self.unless is not None:
            failed, unknown = self._conditions(given)
            if failed is not None:
                return None
            if unknown is not None:
                decision = self._despite(unknown)
        if self.over is None:
            return decision
        subject = self._subject(given)
        if isinstance(subject, Unknown):
            return self._despite(f"per: {subject.why}")
        return Counted(self.id, subject, self.over.most, self.over.within, decision)

    def _conditions(self, given: Given) -> tuple[str | None, str | None]:
        """The condition that keeps it from applying, and the reason why a condition is unknown; None and None if both are as they
        should be.
        """
        unknown: str | None = None
        for name, condition, wanted in (("when", self.when, True), ("unless", self.unless, False)):
            if condition is None:
                continue
            told = condition.truth(given)
            if told is wanted:
                continue
            if not isinstance(told, Unknown):
                return name, None
            problem = f"{name}: {told.why}"
            if self.answer == "allow":
                return name, problem
            unknown = unknown or problem
        return None, unknown

    def _despite(self, unknown: str) -> Decision:
        reason = f"{self.decision.reason}; unknown, so the rule applies: {unknown}"
        return replace(self.decision, reason=reason)

    def _subject(self, given: Given) -> str | Unknown:
        if self.per is None:
            return ""
        found = self.per.value(given)
        if isinstance(found, Unknown):
            return found
        subject = text_of(found)
        hidden = any(
            path[: len(one)] == one or one[: len(path)] == path for path in self.per.paths for one in self.hides
        )
        shown = not hidden and len(subject) <= LONGEST_SUBJECT and storable(subject) == subject
        return subject if shown else digest(storable(subject))

    def kept_out(self, facts: Facts) -> frozenset[str] | Unknown:
        """The people whom `approve.not_by` keeps from approving; Unknown if the expression has no clear value."""
        if self.not_by is None:
            return frozenset()
        found = self.not_by.value(given_by(facts))
        names = [found] if isinstance(found, str) else found
        if isinstance(names, list) and all(isinstance(one, str) and one.strip() for one in names):
            return frozenset(names)
        return found if isinstance(found, Unknown) else Unknown(f'"{self.not_by.expression}" gives no name')

    def considered(self, facts: Facts) -> Considered:
        """Whether it applies to some facts, with the selector or condition that decides it, and its values."""
        if place_of(facts) != self.at:
            return self._said(f"it is a rule at: {self.at}, not at: {place_of(facts)}")
        names = names_of(facts) | {"type": facts.event.type}
        for one in self.selectors:
            if not one.fits(names[one.name]):
                return self._said(f"{one.name} {names[one.name]} is not {one}")
        given = given_by(facts)
        failed, unknown = self._conditions(given)
        if unknown is not None and failed is not None:
            return self._said(f"{unknown}; unknown, so the rule does not apply", unknown=True)
        shown = {**given.values, "arguments": masked(given.values.get("arguments"), self.hides)}
        if failed is not None:
            condition, answer = (self.when, "false") if failed == "when" else (self.unless, "true")
            return self._said(_told(failed, condition, answer, shown))
        parts = []
        if unknown is not None:
            parts.append(f"{unknown}; unknown, so the rule applies")
        else:
            parts += [
                _told(name, condition, answer, shown)
                for name, condition, answer in (("when", self.when, "true"), ("unless", self.unless, "false"))
                if condition is not None
            ]
        counted = False
        if self.over is not None:
            subject = self._subject(given)
            counted = not isinstance(subject, Unknown)
            whose = f" for {subject}" if isinstance(subject, str) and subject else ""
            beyond = f"only beyond {self.over.most:,} within {written(self.over.within)}{whose}"
            parts.append(beyond if not isinstance(subject, Unknown) else f"per: {subject.why}, so it applies at once")
            unknown = subject.why if isinstance(subject, Unknown) else unknown
        why = "; ".join(parts) or f"it has no condition: it is about all {_PLURALS[self.at]} that its selectors fit"
        return self._said(why, applies=True, unknown=unknown is not None, counted=counted)

    def _said(self, why: str, *, applies: bool = False, unknown: bool = False, counted: bool = False) -> Considered:
        return Considered(self.id, applies, why, unknown, self.answer, self.mode, counted, self.where)


def _told(name: str, condition: RuleExpression | None, answer: str, values: Mapping[str, Any]) -> str:
    return "" if condition is None else f'{name} "{condition.expression}" is {answer}{condition.shown(values)}'


def names_of(facts: Facts) -> dict[str, str]:
    """The names that selectors look at, except the event's type."""
    if isinstance(facts, EffectFacts):
        return {"agent": facts.agent, "action": facts.action, "risk": facts.risk}
    return {"agent": facts.agent}


def given_by(facts: Facts, needs: Needs = NOTHING_SHARED) -> Given:
    """The facts as expressions see them."""
    values: dict[str, Any] = {"event": facts.event, "data": facts.event.data, "agent": facts.agent, "now": facts.now}
    stale: dict[str, str] = {}
    if isinstance(facts, EffectFacts | ScheduleFacts):
        if isinstance(facts, EffectFacts):
            values["action"] = facts.action
            values["arguments"] = dict(facts.by_name)
        else:
            values["arguments"] = {name: getattr(facts, name) for name in SCHEDULE_ARGUMENTS}
        values["run"] = dict(facts.run)
        values["facts"] = fresh = {}
        for name, value in facts.facts.items():
            if not isinstance(value, FactValue):
                fresh[name] = _plain(value)
            elif value.is_stale(facts.now):
                stale[name] = value.age_in_words()
            else:
                fresh[name] = _plain(value.value)
    return Given(place_of(facts), values, stale, needs)


def _plain(value: Any) -> Any:
    """The library takes no datetime inside a map: `timestamp(facts.since)` reads the text."""
    return value.isoformat() if isinstance(value, datetime) else value


def masked(value: Any, paths: Iterable[Path]) -> Any:
    """A copy of the arguments of an action in which the values at these paths, like ("arguments", "card"), are
    replaced. A path goes through each item of a list.
    """
    for path in paths:
        value = _masked(value, path[1:])
    return value


def placeholder_in(value: Any, paths: Iterable[Path]) -> str | None:
    """The first of these paths where arguments hold the text that stands for a hidden value; None if none does. A person who edits what is
    shown may have copied it.
    """
    return next((".".join(path) for path in paths if _holds_placeholder(value, path[1:])), None)


def _holds_placeholder(value: Any, path: Path) -> bool:
    if not path:
        return bool(value == REDACTED)
    if isinstance(value, Mapping):
        return path[0] in value and _holds_placeholder(value[path[0]], path[1:])
    return isinstance(value, list | tuple) and any(_holds_placeholder(one, path) for one in value)


def _masked(value: Any, path: Path) -> Any:
    if not path:
        return REDACTED
    if isinstance(value, Mapping):
        return {name: _masked(held, path[1:]) if name == path[0] else held for name, held in value.items()}
    if isinstance(value, list | tuple):
        return [_masked(one, path) for one in value]
    return value
