"""The policy that one process judges by: the text in force in the store, and the rules of the app's code.

The store says which text is in force, so all processes judge by the same one, even if their own files differ. An effect that was judged
by an older version is refused by the transaction that would begin it; this process then looks again and judges anew.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from wakeful.errors import ConfigError, StoreUnavailable
from wakeful.model import OWN_AGENTS, Decision
from wakeful.policy.asking import Ask, asks_of
from wakeful.policy.decide import ALLOWED, DEFAULT_RULES, AdmissionFacts, Facts, Rule, files_say, judge
from wakeful.policy.judgement import Judgement
from wakeful.policy.text import Policy, read_policy
from wakeful.stores.transaction import Fetcher
from wakeful.stores.verbs.policies import policy_in_force, policy_texts

LOOK_EVERY = 1.0  # seconds within which every process follows a new policy
# Alarms and approvals must get out, so Wakeful's own agents are not judged.
OWN = Decision("allow", rule="wakeful", reason="one of Wakeful's own agents")


class Policies:
    """Judges facts by the policy in force."""

    def __init__(
        self,
        app: str,
        database: Fetcher | None = None,
        rules: Callable[[], Sequence[Rule]] = lambda: DEFAULT_RULES,
        *,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._app = app
        self._database = database
        self._rules = rules
        self.policy: Policy | None = None
        self.version: str | None = None
        self.followed = False  # a service of this process looks all the time (PolicyFiles)
        self._unreadable: str | None = None
        self._now = now
        self._looked_at = now()

    @property
    def has_text(self) -> bool:
        """Whether rules in a file may ask for the arguments of an action."""
        return self.policy is not None

    @property
    def readable(self) -> str | None:
        """The version in force, if this process can read its text."""
        return self.version if self._unreadable is None else None

    def judge(self, facts: Facts) -> Judgement:
        """The judgement of all rules. If the text in force cannot be read here, everything is denied."""
        if facts.agent.startswith(OWN_AGENTS):
            return Judgement(OWN, self.version)
        if self._unreadable is not None:
            reason = f"the policy in force cannot be read by this process: {self._unreadable}"
            return Judgement(Decision("deny", "policy", reason, version=self.version or "", broken=True), self.version)
        return judge(facts, self._rules(), self.policy)

    def judge_admission(self, facts: AdmissionFacts) -> Judgement:
        """As judge, for an event that is about to become a run. If rules ask, the decision carries the terms of each."""
        return self._asking(self.judge(facts), facts)

    def judge_rounds(self, facts: AdmissionFacts) -> Callable[[int], Judgement]:
        """As judge_admission, for an event that closes a loop: what is returned judges it inside a transaction, once its rounds are counted.
        The rules in files know nothing of rounds. They are asked now.
        """
        if facts.agent.startswith(OWN_AGENTS) or self._unreadable is not None:
            judgement = self.judge(facts)
            return lambda _: judgement
        rules, policy, chain = self._rules(), self.policy, facts.chain
        said = None if policy is None else files_say(facts, policy)

        def judge_round(rounds: int) -> Judgement:
            told = facts if chain is None else replace(facts, chain=replace(chain, rounds=rounds))
            return self._asking(judge(told, rules, policy, said), facts)

        return judge_round

    def _asking(self, judgement: Judgement, facts: AdmissionFacts) -> Judgement:
        asks = asks_of(judgement, facts, self.policy)
        if not asks:
            return judgement
        counted = tuple(
            replace(one, decision=with_asks(one.decision, [asks[one.rule]])) if one.rule in asks else one
            for one in judgement.counted
        )
        static = [asks[rule] for rule in judgement.asks]
        return replace(judgement, decision=with_asks(judgement.decision, static), counted=counted)

    def redacted(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """The arguments of an action, by name, without the values that the policy in force redacts."""
        return arguments if self.policy is None else self.policy.redacted(arguments)

    def presume(self, policy: Policy) -> None:
        """Judge by this policy as long as none is in force: that of a process which only sends events before any worker has started."""
        if self.version is None:
            self.policy = policy

    @property
    def is_old(self) -> bool:
        """Whether another version may be in force for longer than LOOK_EVERY: in a process that only takes events in."""
        return not self.followed and self._database is not None and self._now() - self._looked_at > LOOK_EVERY

    async def look_again(self) -> None:
        """Look. While the store is unavailable the policy stays as it is."""
        with contextlib.suppress(StoreUnavailable):
            await self.look()

    async def look(self) -> bool:
        """Read which policy is in force, and its text if it is another one than before. Returns whether it is."""
        if self._database is None:
            return False
        began = self._now()
        version = await policy_in_force(self._database, self._app)
        self._looked_at = began
        if version == self.version:
            return False
        policy, unreadable = None, None
        if version is not None:
            try:
                policy = read_policy(await policy_texts(self._database, self._app, version))
            except ConfigError as error:  # written for a newer version of Wakeful
                unreadable = str(error)
        self.policy, self.version, self._unreadable = policy, version, unreadable
        return True


def with_asks(decision: Decision, asks: Sequence[Ask]) -> Decision:
    """The decision with the terms of its rules. It denies if a rule keeps people out and they are unknown."""
    if decision.answer != "ask":
        return decision
    unknown = next((one for one in asks if one.unknown is not None), None)
    if unknown is not None:
        reason = f"{unknown.reason}; who may not approve is unknown: {unknown.unknown}"
        return replace(decision, answer="deny", rule=unknown.rule, reason=reason)
    return replace(decision, asks=tuple(asks))


UNRULED = Judgement(ALLOWED)
