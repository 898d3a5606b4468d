"""`run.facts`: values that a handler tells policy, each perhaps with an age limit.

The handler sets them in its own lines, so they are the same on resume. They are also stored with the run, because policy is asked
without the handler too: before it runs again, about an effect that a crash left open, and after the commit, about staged effects.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from pydantic_core import from_json, to_json

from wakeful.errors import Persistent
from wakeful.policy.facts import FactValue
from wakeful.values import to_text

if TYPE_CHECKING:
    from wakeful.execution.attempt import Attempt
    from wakeful.model import Step

FACTS = "facts"  # the key of the stored fact
LIMIT = 256 * 1024  # bytes of JSON, all facts of a run together
LONGEST_NAME = 200
NO_FACTS: Mapping[str, FactValue] = MappingProxyType({})


class RunFacts(MutableMapping[str, Any]):
    """The facts of one attempt, by name. Reading one returns its value."""

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt
        self.known: dict[str, FactValue] = {}
        before = attempt.record.facts
        self._stored = None if before is None else before.result
        self._unsaved: Step | None = None

    def __getitem__(self, name: str) -> Any:
        return self.known[name].value

    def __setitem__(self, name: str, value: Any) -> None:
        attempt = self._attempt
        what = f"run.facts[{name!r}]"
        attempt.refuse_inside(f"{what} = …")
        attempt.refuse_when_over()
        if not isinstance(name, str) or not 0 < len(name) <= LONGEST_NAME:
            message = f"{what}: the name of a fact is a text of 1 to {LONGEST_NAME} characters"
            raise Persistent(message)
        one = value if isinstance(value, FactValue) else FactValue(value)
        text = to_text(one.value, what=f"{what} of agent {attempt.agent}", passed=True, limit=LIMIT)
        self._become({**self.known, name: FactValue(from_json(text), one.as_of, one.max_age)})

    def __delitem__(self, name: str) -> None:
        self._attempt.refuse_inside(f"del run.facts[{name!r}]")
        self._attempt.refuse_when_over()
        if name not in self.known:
            raise KeyError(name)
        self._become({key: one for key, one in self.known.items() if key != name})

    def __iter__(self) -> Iterator[str]:
        return iter(self.known)

    def __len__(self) -> int:
        return len(self.known)

    def __repr__(self) -> str:
        return repr({name: one.value for name, one in self.known.items()})

    def _become(self, known: dict[str, FactValue]) -> None:
        """Store the facts with the next checkpoint, or before policy is asked, unless they are stored as they are."""
        record = self._attempt.record
        text = _to_text(known, self._attempt.agent)
        self.known = known
        waiting = next((one for one in record.unsaved if one is self._unsaved), None)
        if waiting is None and text != self._stored:
            self._unsaved = waiting = record.new_step(FACTS, FACTS, "fact")
            record.unsaved.append(waiting)
        if waiting is not None:
            waiting.result = text
        self._stored = text


def known_facts(attempt: Attempt) -> Mapping[str, FactValue]:
    """The facts for policy: those of this attempt's handler; those that are stored, if this attempt runs none."""
    if attempt.facts is not None:
        return attempt.facts.known
    stored = attempt.record.facts
    if stored is None or attempt.handles:
        return NO_FACTS
    return {name: FactValue(*one) for name, one in from_json(stored.result or "{}").items()}


def _to_text(known: Mapping[str, FactValue], agent: str) -> str:
    told = {name: [one.value, one.as_of, one.max_age] for name, one in known.items()}
    size = len(to_json(told))
    if size > LIMIT:
        message = f"the facts of agent {agent} are {size:,} bytes of JSON, over the limit of {LIMIT:,}: keep only what rules need"
        raise Persistent(message)
    return to_json(told).decode()
