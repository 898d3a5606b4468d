"""Two policies compared: stored admissions and effects of some time, judged by both.

Only what can be rebuilt from the store is judged. Everything else is counted by its reason, so that "nothing changes" is not
said of effects that were not judged.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from wakeful.clock import Microseconds
from wakeful.model import OWN_AGENTS, Decision
from wakeful.operations.policy_facts import (
    COUNTED,
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
from wakeful.policy.decide import AdmissionFacts, EffectFacts, judge
from wakeful.policy.facts import place_of
from wakeful.policy.judgement import STRICTNESS, Judgement
from wakeful.policy.reading import RISKS
from wakeful.policy.rule import FileRule, names_of
from wakeful.stores.reads import ReadsDatabase
from wakeful.stores.verbs.policies import AdmissionToJudge, EffectToJudge

if TYPE_CHECKING:
    from wakeful.operations.declared import Declared
    from wakeful.policy.text import Policy

PAGE = 200
MOST_EXAMPLES = 20
MOST_OF_A_PAIR = 3  # examples, so that a frequent change does not hide a rare one
NOT_ASKED = ("skipped", "expired")  # states of admissions that policy was not asked about

Way = Literal["same", "stricter", "looser"]


@dataclass(frozen=True, slots=True)
class Pair:
    """The answers of both policies, each with its rule."""

    old_answer: str
    old_rule: str
    new_answer: str
    new_rule: str

    @property
    def way(self) -> Way:
        old, new = STRICTNESS[self.old_answer], STRICTNESS[self.new_answer]  # type: ignore[index]
        return "same" if old == new else "stricter" if new > old else "looser"

    @property
    def changes(self) -> bool:
        return (self.old_answer, self.old_rule) != (self.new_answer, self.new_rule)


@dataclass(frozen=True, slots=True)
class Example:
    """An admission or an effect that the policies judge differently."""

    at: Literal["admission", "effect"]
    id: str
    agent: str
    action: str | None
    pair: Pair
    reason: str  # of the new policy


@dataclass(slots=True)
class Comparison:
    """The answers of both policies to stored admissions and effects."""

    admissions: int = 0
    effects: int = 0
    pairs: Counter[Pair] = field(default_factory=Counter)
    unjudged: Counter[str] = field(default_factory=Counter)
    examples: list[Example] = field(default_factory=list)

    def count(self, way: Way) -> int:
        return sum(times for pair, times in self.pairs.items() if pair.way == way)

    def note(self, found: str | tuple[Pair, str], example: Example | None) -> None:
        if isinstance(found, str):
            self.unjudged[found] += 1
            return
        self.pairs[found[0]] += 1
        rare = self.pairs[found[0]] <= MOST_OF_A_PAIR and len(self.examples) < MOST_EXAMPLES
        if example is not None and found[0].changes and rare:
            self.examples.append(example)


async def compare(
    source: ReadsDatabase, app: str, old: Policy, new: Policy, *, since: Microseconds, code: Declared | None
) -> Comparison:
    """Judge the admissions and effects of an app since then by both policies. Wakeful's own agents are left out: no rule judges them."""
    both = _Both(old, new, code)
    found = Comparison()
    async for admission in _admissions(source, app, since):
        if admission.state not in NOT_ASKED and not admission.agent.startswith(OWN_AGENTS):
            found.admissions += 1
            judged = both.judge(admission_facts(admission, code))
            identifier = admission.run or admission.event
            found.note(judged, _example("admission", identifier, admission.agent, None, judged))
    async for effect in _effects(source, app, since):
        if not effect.agent.startswith(OWN_AGENTS):
            found.effects += 1
            judged = both.judge(effect_facts(effect, code))
            found.note(judged, _example("effect", effect.id, effect.agent, effect.action, judged))
    denied = int((await source.fetch("count_denied_effects", app, since))[0][0])
    if denied:
        found.effects += denied
        found.unjudged[DENIED] += denied
    return found


def _example(
    at: Literal["admission", "effect"], identifier: str, agent: str, action: str | None, judged: str | tuple[Pair, str]
) -> Example | None:
    return None if isinstance(judged, str) else Example(at, identifier, agent, action, *judged)


async def _admissions(source: ReadsDatabase, app: str, since: Microseconds) -> AsyncIterator[AdmissionToJudge]:
    after, agent = 0, ""
    while True:
        rows = await source.fetch("admissions_to_judge", app, since, after, agent, PAGE)
        for row in rows:
            yield AdmissionToJudge(*row)
        if len(rows) < PAGE:
            return
        after, agent = rows[-1][0], rows[-1][3]
        await asyncio.sleep(0)  # let other tasks run


async def _effects(source: ReadsDatabase, app: str, since: Microseconds) -> AsyncIterator[EffectToJudge]:
    after = 0
    while True:
        rows = await source.fetch("effects_to_judge", app, since, after, PAGE)
        for row in rows:
            yield EffectToJudge(*row)
        if len(rows) < PAGE:
            return
        after = rows[-1][0]
        await asyncio.sleep(0)  # let other tasks run


@dataclass(frozen=True, slots=True)
class _Both:
    old: Policy
    new: Policy
    code: Declared | None

    def judge(self, rebuilt: Rebuilt) -> str | tuple[Pair, str]:
        """The answers of both, and the reason of the new one; or the reason why they are unknown."""
        facts = rebuilt.facts
        if facts is None:
            return rebuilt.lacks[0]
        fitting = [*self._fitting(facts, self.old, rebuilt), *self._fitting(facts, self.new, rebuilt)]
        for lack, root in ((UNNAMED, "arguments"), (RUN_FACTS, "facts")):
            if lack in rebuilt.lacks and any(reads(rule, root) for rule in fitting):
                return lack
        risks = RISKS if RISK in rebuilt.lacks and isinstance(facts, EffectFacts) else ("",)
        results = [self._pair(facts, risk) for risk in risks]
        first = results[0]
        if isinstance(first, str) or len({one if isinstance(one, str) else one[0] for one in results}) == 1:
            return first
        # Another answer for each risk, but the same one by both policies: no change, so the risk does not matter.
        unchanged = all(not isinstance(one, str) and not one[0].changes for one in results)
        return first if unchanged else RISK

    def _fitting(self, facts: AdmissionFacts | EffectFacts, policy: Policy, rebuilt: Rebuilt) -> Iterable[FileRule]:
        """The rules whose selectors fit. If the risk is not known, any risk fits."""
        names = names_of(facts) | {"type": facts.event.type}
        free = "risk" if RISK in rebuilt.lacks else ""
        for rule in policy.rules_at(place_of(facts)):
            if all(one.name == free or one.fits(names[one.name]) for one in rule.selectors):
                yield rule

    def _pair(self, facts: AdmissionFacts | EffectFacts, risk: str) -> str | tuple[Pair, str]:
        if risk and isinstance(facts, EffectFacts):
            facts = replace(facts, risk=risk)
        rules = rules_of(self.code)
        old, new = judge(facts, rules, self.old), judge(facts, rules, self.new)
        pair = Pair(old.decision.answer, old.decision.rule, new.decision.answer, new.decision.rule)
        # If both count the same things in the same way, their answers do not differ, no matter what was counted.
        alike = not pair.changes and _counted(old) == _counted(new)
        if not alike and (_depends(old) or _depends(new)):
            return COUNTED
        return pair, new.decision.reason


def _depends(judgement: Judgement) -> bool:
    """Whether counts may change the answer."""
    beyond = judgement.final([one.rule for one in judgement.counted])
    return _said(beyond) != _said(judgement.decision)


def _counted(judgement: Judgement) -> Sequence[object]:
    return [
        (one.rule, one.subject, one.most, one.within, one.decision.answer, one.decision.mode)
        for one in judgement.counted
    ]


def _said(decision: Decision) -> tuple[str, str]:
    return decision.answer, decision.rule
