"""The judgement of policy about some facts: one decision, and the counted rules, which only the store can decide.

facts ──► judge ──► Judgement ──► the store counts ──► final(over) ──► the decision that is stored
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from wakeful.clock import Microseconds
from wakeful.model import Answer, Decision

STRICTNESS: dict[Answer, int] = {"allow": 0, "ask": 1, "hold": 2, "shadow": 3, "deny": 4}


@dataclass(frozen=True, slots=True)
class Counted:
    """A rule with `over:`. It applies only beyond its count, which the store keeps for each rule and subject."""

    rule: str
    subject: str  # the value of `per:`; '' without one
    most: int
    within: Microseconds
    decision: Decision  # if it is beyond its count


@dataclass(frozen=True, slots=True)
class Judgement:
    """The answer of all rules together."""

    decision: Decision  # the strictest of all rules that apply and are not counted
    version: str | None = None  # of the policy files that it was judged by; None: the app has none
    counted: tuple[Counted, ...] = ()
    watched: tuple[Decision, ...] = ()  # of rules with mode: watch; recorded, not applied
    asks: tuple[str, ...] = ()  # the ids of all rules that apply and ask: each wants its own yes
    holds: tuple[str, ...] = ()  # the same, of rules that hold
    is_default: bool = False  # no rule applied
    grants: tuple[str, ...] = ()  # that serve it if the final answer is "ask", in this order

    def final(self, over: Collection[str]) -> Decision:
        """The decision, if the counted rules with these ids are beyond their counts."""
        beyond = [one.decision for one in self._beyond(over) if one.decision.mode == "enforce"]
        if not beyond:
            return self.decision
        return strictest(beyond if self.is_default else [self.decision, *beyond])

    def asking(self, over: Collection[str]) -> tuple[str, ...]:
        """`asks`, with the counted rules that are beyond their counts."""
        return self._with(self.asks, "ask", over)

    def holding(self, over: Collection[str]) -> tuple[str, ...]:
        """`holds`, with the counted rules that are beyond their counts."""
        return self._with(self.holds, "hold", over)

    def _with(self, rules: tuple[str, ...], answer: Answer, over: Collection[str]) -> tuple[str, ...]:
        more = [
            one.rule
            for one in self._beyond(over)
            if one.decision.answer == answer and one.decision.mode == "enforce" and one.rule not in rules
        ]
        return tuple(sorted((*rules, *more))) if more else rules

    def watching(self, over: Collection[str]) -> tuple[Decision, ...]:
        """`watched`, with the counted rules that are beyond their counts."""
        more = [one.decision for one in self._beyond(over) if one.decision.mode == "watch"]
        return in_order((*self.watched, *more)) if more else self.watched

    def _beyond(self, over: Collection[str]) -> list[Counted]:
        return [one for one in self.counted if one.rule in over] if over and self.counted else []


def strictest(decisions: Iterable[Decision]) -> Decision:
    """The strictest of some decisions. Their order changes nothing: of equally strict ones, a broken rule comes first,
    because it raises an alarm, then the first by name.
    """
    found = list(decisions)
    if len(found) > 1:
        rank = max(STRICTNESS[one.answer] for one in found)
        found = [one for one in found if STRICTNESS[one.answer] == rank]
    return found[0] if len(found) == 1 else min(found, key=_severity)


def in_order(decisions: Iterable[Decision]) -> tuple[Decision, ...]:
    """Decisions sorted by the names of their rules."""
    return tuple(sorted(decisions, key=_name))


def _severity(decision: Decision) -> tuple[bool, str, str, str]:
    return not decision.broken, decision.rule, decision.reason, decision.version


def _name(decision: Decision) -> tuple[str, str, str, str]:
    return decision.rule, decision.reason, decision.version, decision.answer
