"""The text of a policy: YAML files that all hold together, read into rules, or refused with all that is wrong.

policy: 1
redact: [arguments.card]
rules:
  - id: large-refunds
    action: refund
    when: arguments.amount > 100.0
    answer: ask
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any

from wakeful.cel_rules import Needs
from wakeful.cel_text import Path
from wakeful.clock import Microseconds
from wakeful.errors import ConfigError
from wakeful.policy.facts import Facts, Place, place_of
from wakeful.policy.reading import Known, read_files
from wakeful.policy.rule import FileRule, masked, names_of, placeholder_in
from wakeful.policy.tree import Problems, read_tree

__all__ = ["Known", "Policy", "PolicyError", "read_policy", "version_of"]

MOST_KEPT = 4_096  # combinations of place, agent, action, risk and type of event
MOST_SHARED = 256  # combinations of rules whose conditions are compiled together
Candidates = tuple[tuple[FileRule, ...], Needs]


class PolicyError(ConfigError):
    """A policy that cannot be used. `problems` has one line for each mistake: "policy.yaml:12:5: …"."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = list(problems)


class Policy:
    """The rules of all files, and the version of their text."""

    __slots__ = ("_by_place", "_candidates", "_hides", "_needs", "redact", "rules", "version")

    def __init__(self, version: str, rules: Sequence[FileRule], redact: Sequence[str] = ()) -> None:
        self.version = version
        self.rules = tuple(rules)
        self.redact = tuple(redact)
        self._hides: tuple[Path, ...] = tuple(tuple(one.split(".")) for one in redact)
        self._by_place: dict[Place, list[FileRule]] = {}
        for rule in self.rules:
            self._by_place.setdefault(rule.at, []).append(rule)
        self._candidates: dict[tuple[str, ...], Candidates] = {}
        self._needs: dict[tuple[FileRule, ...], Needs] = {}

    def candidates(self, facts: Facts) -> Candidates:
        """The rules whose selectors fit: only their conditions are left to look at. With them, what their conditions
        need.
        """
        place, names = place_of(facts), names_of(facts)
        names["type"] = facts.event.type
        key = (place, *names.values())
        found = self._candidates.get(key)
        if found is None:
            rules = tuple(rule for rule in self._by_place.get(place, ()) if rule.fits(names))
            found = rules, self._needs_of(place, rules)
            if len(self._candidates) >= MOST_KEPT:
                self._candidates.clear()
            self._candidates[key] = found
        return found

    def _needs_of(self, place: Place, rules: tuple[FileRule, ...]) -> Needs:
        """Types of events may be many, but few differ in the rules that fit them: each of these is compiled once."""
        needs = self._needs.get(rules)
        if needs is None:
            needs = Needs.of(place, [one for rule in rules for one in rule.expressions])
            if len(self._needs) >= MOST_SHARED:
                self._needs.clear()
            self._needs[rules] = needs
        return needs

    @property
    def counts_for(self) -> Microseconds:
        """The longest time for which a rule counts."""
        return max((rule.over.within for rule in self.rules if rule.over is not None), default=0)

    def rules_at(self, place: Place) -> Sequence[FileRule]:
        return self._by_place.get(place, ())

    def redacted(self, by_name: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of an action with the values of `redact:` replaced, for decisions, messages and logs."""
        shown: dict[str, Any] = masked(dict(by_name), self._hides)
        return shown

    def placeholder_in(self, by_name: Mapping[str, Any]) -> str | None:
        """The path of `redact:` where these arguments hold what is shown in place of a value; None if there is none."""
        return placeholder_in(by_name, self._hides)


def version_of(texts: Sequence[str]) -> str:
    """The version of a policy: the digest of its text, or of the digests of its texts in any order."""
    digests = sorted(_digest(text.encode("utf-8", "surrogatepass")) for text in texts)
    return digests[0] if len(digests) == 1 else _digest("".join(digests).encode())


def _digest(content: bytes) -> str:
    return blake2b(content, digest_size=16).hexdigest()


def read_policy(texts: Sequence[tuple[str, str]], known: Known | None = None) -> Policy:
    """Read the files of a policy, each given as its name and its text. PolicyError lists all mistakes in
    them. `known`: the agents, actions and people that exist; without it their names are not checked.
    """
    if not texts:
        raise PolicyError(["a policy needs at least one file"])
    version = version_of([text for _, text in texts])
    problems = Problems()
    trees = [read_tree(number, file, text, problems) for number, (file, text) in enumerate(texts)]
    rules, redact = read_files(trees, version, known, problems)
    if len(problems):
        raise PolicyError(problems.lines())
    return Policy(version, rules, redact)
