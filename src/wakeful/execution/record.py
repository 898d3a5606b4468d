"""The record of a run's steps, as one attempt reads it and adds to it.

A resumed run executes its handler from the top. Each `run.*` call computes its key (name, digest of arguments, count
among equal ones) and looks it up here; only a call without a record is carried out. So the order of calls does not
matter, and branches that swap on resume still get their own results.

Facts and finished sleeps are stored with the next checkpoint, or when the run leaves memory.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from wakeful.clock import Microseconds
from wakeful.errors import Persistent
from wakeful.execution.facts import FACTS
from wakeful.execution.locks import locks_held
from wakeful.execution.remarks import FIRST, take_remarks
from wakeful.execution.surroundings import RunSurroundings
from wakeful.functions.options import StepOptions, location, name_of
from wakeful.model import Claim, Step, StepState
from wakeful.stores.verbs.progress import SaveSteps
from wakeful.stores.verbs.waits import Wait


class Record:
    """Steps by key: those of earlier attempts, and those that this one has not stored yet."""

    __slots__ = (
        "_claim",
        "_clock",
        "_counts",
        "_names",
        "_recorded",
        "_store",
        "_unread",
        "asked",
        "awaited",
        "facts",
        "position",
        "remarks",
        "retrying",
        "round",
        "unsaved",
        "waiting",
    )

    def __init__(self, claim: Claim, surroundings: RunSurroundings) -> None:
        self._claim = claim
        self._store = surroundings.store
        self._clock = surroundings.clock
        self._recorded = {step.key: step for step in claim.steps} if claim.steps else {}
        self.facts = self._recorded.pop(FACTS, None) if self._recorded else None  # what an earlier attempt told policy
        self.remarks = take_remarks(self._recorded) if FIRST in self._recorded else ()
        self.round = len(self.remarks)  # steps of earlier rounds are not found again
        self._unread = len(self._recorded)
        if self.round:
            self._unread = sum(step.position >= 0 for step in self._recorded.values())
        self._counts: dict[str, int] = {}
        self._names: dict[str, Callable[..., Any]] = {}
        self.position = self._unread  # the next place in the trace, shared with effects and deliveries
        self.unsaved: list[Step] = []
        self.retrying: dict[str, Step] = {}
        self.waiting: dict[str, Step] = {}  # durable waits
        self.awaited: dict[str, Wait] = {}  # of these, the waits for events
        self.asked: set[str] | None = None  # the keys looked up; kept only if the code has changed since

    # identity

    def next_key(self, name: str, digested: str) -> tuple[str, str]:
        """The key of the next call (name, digest of arguments, count among equal ones), and its display name."""
        base = f"{name}:{digested}"
        counts = self._counts
        equal = counts[base] = counts.get(base, -1) + 1
        calls = counts[name] = counts.get(name, 0) + 1
        return f"{base}:{equal}" if equal else base, name if calls == 1 else f"{name}#{calls}"

    def name_of(self, function: Callable[..., Any], options: StepOptions) -> str:
        """The step's name. Raises Persistent for two functions of one name: they would read each other's results."""
        name = options.name or name_of(function)
        if options.name is None and (name == "<lambda>" or not hasattr(function, "__name__")):
            message = (
                f"a step needs a name: {location(function)} is a lambda or a partial. "
                'Write run.step(step(name="total")(…))'
            )
            raise Persistent(message)
        other = self._names.setdefault(name, function)
        if other is not function and location(other) != location(function):
            message = (
                f"two functions named {name} in one run ({location(other)} and {location(function)}): "
                "give one another name with @step(name=…)"
            )
            raise Persistent(message)
        return name

    def refuse_another_action(self, name: str, function: Callable[..., Any], written_at: str) -> None:
        """Raise Persistent for two actions of one name: they would find each other's effects on resume."""
        other = self._names.setdefault(f"act {name}", function)
        if other is not function and location(other) != written_at:
            message = (
                f"two actions named {name} in one run ({location(other)} and {written_at}): "
                "give one another name with @action(name=…)"
            )
            raise Persistent(message)

    # reading

    @property
    def replaying(self) -> bool:
        """Whether this attempt is still replaying what earlier attempts recorded."""
        return self._unread > 0

    def find(self, key: str) -> Step | None:
        """The step under a key. The first call without a record ends the replayed part."""
        if not self._recorded:
            return None
        if self.asked is not None:
            self.asked.add(key)
        step = self._recorded.get(key)
        if step is None:
            self._unread = 0
        elif self._unread and step.position >= 0:
            self._unread -= 1
        return step

    def steps_named(self, prefix: str) -> list[Step]:
        """The recorded steps whose keys begin with a prefix."""
        return [step for key, step in self._recorded.items() if key.startswith(prefix)] if self._recorded else []

    def enter(self, step: Step) -> None:
        """A step that another request has stored."""
        self._recorded[step.key] = step

    def fact(self, key: str, text: str) -> str:
        """The value that the first attempt recorded under a key; `text` if this is the first. Stored with the next
        checkpoint.
        """
        recorded = self._recorded.get(key)
        if recorded is not None and recorded.result is not None:
            self._unread = max(0, self._unread - 1)
            return recorded.result
        fact = self.new_step(key, key, "fact")
        fact.result = text
        self.unsaved.append(fact)
        return text

    def now(self) -> Microseconds:
        """The time of this call at the first attempt. Stored with the next checkpoint."""
        key, shown = self.next_key("now", "")
        if self.round:
            key, shown = in_round(self.round, key, shown)
        recorded = self.find(key)
        if recorded is not None and recorded.result is not None:
            return int(recorded.result)
        fact = self.new_step(key, shown, "fact")
        fact.result = str(fact.started_at)
        self.unsaved.append(fact)
        return fact.started_at

    # writing

    def new_step(
        self,
        key: str,
        name: str,
        state: StepState,
        *,
        arguments: str | None = None,
        started_at: Microseconds | None = None,
        position: int | None = None,
    ) -> Step:
        """A new step of this attempt, at the next place in the trace unless a position is given."""
        now = self._clock.now()
        if position is None:
            position, self.position = self.position, self.position + 1
        started = now if started_at is None else started_at
        return Step(key, name, state, None, None, arguments, 1, self._claim.attempts + 1, position, started, now)

    def save(self, step: Step) -> Awaitable[None]:
        """Store a checkpoint, together with the facts before it."""
        steps = [step]
        if self.unsaved:
            steps = [*self.unsaved, step]
            self.unsaved = []
        return self._store.do(SaveSteps(self._claim, steps, locks_held(self._claim)))

    async def save_facts(self) -> None:
        """Store facts before a checkpoint that cannot include them."""
        if self.unsaved:
            facts, self.unsaved = self.unsaved, []
            await self._store.do(SaveSteps(self._claim, facts, locks_held(self._claim)))

    def passed(self, step: Step) -> None:
        """A sleep is over. This is stored with the next checkpoint; until then its due time shows it too."""
        step.state, step.result, step.finished_at = "done", "null", self._clock.now()
        self.unsaved.append(step)

    async def save_passed(self) -> None:
        """At the end of the handler: store finished sleeps that no checkpoint included."""
        if any(step.state == "done" for step in self.unsaved):
            await self.save_facts()

    # leaving memory

    def pending(self) -> list[Step]:
        """Facts and waiting steps that must be stored when the run leaves memory."""
        return [*self.unsaved, *self.retrying.values(), *self.waiting.values()]


def in_round(number: int, key: str, shown: str) -> tuple[str, str]:
    """The key and the display name of a step that is done again after a return: `judge@2` is the step of the second round."""
    return f"{key}@{number}", f"{shown}@{number + 1}"
