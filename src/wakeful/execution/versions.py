"""Code that changes while runs are in flight: which version a run began with, and what happens when it meets another.

    continue   the run goes on; recorded steps that the new code never asks for are reported at its end
    restart    the recorded steps are dropped and the handler starts from the top; effects stay in the ledger
    hold       a person looks first: a replay continues with the new code, a cancel ends the run

    With any of these, a run of newer code that meets older code is held.

A run belongs to the version that last ran it. While other processes serve that version, the run is theirs
(stores/verbs/versions.py). A process takes it only once none does, or once it has waited for `drain`.

A version is the agent's `version=`, or a digest of its handler's source. Only of the handler itself: the functions it
calls may change freely, because steps are found by name.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType
from typing import TYPE_CHECKING, Any

from pydantic_core import from_json, to_json

from wakeful.clock import SECOND, Microseconds
from wakeful.model import Claim, Step, digest
from wakeful.stores.awaited_version import AGREED

if TYPE_CHECKING:
    from wakeful.functions.options import AgentOptions

FACT = "version"  # the run changed to another version: this, `version 2`, `version 3`, …
UNASKED_FACT = "not asked for"
FINISHED = frozenset({"done", "failed"})
RESTARTS = 5  # of one run within a day because its code changed; then it is held
RESTARTS_WITHIN: Microseconds = 24 * 3600 * SECOND


@dataclass(frozen=True, slots=True)
class NewCode:
    """A run meets other code than it began with. `agreed`: a person allowed it to go on; `noted`: an earlier attempt
    already changed to that code; `back`: that code is older; `before`: the times at which it restarted from the top.
    """

    was: str
    now: str
    agreed: bool = False
    noted: bool = False
    back: bool = False
    number: int = 1
    before: tuple[Microseconds, ...] = ()

    def __str__(self) -> str:
        return f"its code changed since it began: version {self.was} then, {self.now} now"

    def restarts(self, moment: Microseconds) -> int:
        """How often it recently restarted from the top because its code changed."""
        return sum(one > moment - RESTARTS_WITHIN for one in self.before)

    def why_held(self, on_change: str, moment: Microseconds) -> str | None:
        """Why the run is held, or None. No run goes back to older code by itself, and no run restarts for ever."""
        if self.back:
            return (
                f"newer code began it (version {self.was}), but only older code (version {self.now}) is running: start a worker "
                "with the newer code, or let the older code continue it (`wakeful replay RUN`)"
            )
        if on_change == "hold":
            return str(self)
        if on_change == "restart" and (times := self.restarts(moment)) >= RESTARTS:
            return f"{self}; it restarted from the top {times} times within a day for that reason"
        return None

    def again(self) -> str:
        """The text of the alarm about a repeated restart."""
        return (
            f"has restarted from the top {len(self.before) + 1} times because its code changed, now from version {self.was} to "
            f"{self.now}. After {RESTARTS} times within a day it is held for a person"
        )

    def fact(self, moment: Microseconds, *, restarted: bool) -> Step:
        """The change as a fact of the run, so that a later attempt knows it too."""
        told = {"was": self.was, "now": self.now, "restarted": restarted, "agreed": self.agreed}
        return _fact(FACT if self.number == 1 else f"{FACT} {self.number}", told, moment)

    def unasked(self, names: Collection[str], moment: Microseconds) -> Step:
        """The steps that the new code never asked for, as a fact."""
        return _fact(UNASKED_FACT, {"was": self.was, "now": self.now, "steps": list(names)}, moment)


def change_of(claim: Claim, now: str) -> NewCode | None:
    """The change of code that a run meets, or None. A committed run meets none: its handler has nothing left to do."""
    if claim.version is None or claim.first_start or claim.committed is not None:
        return None
    was = claim.version.removeprefix(AGREED)
    facts = [step for step in claim.steps if is_change(step)]
    if was != now:
        before = tuple(step.started_at for step in facts if from_json(step.result or "{}").get("restarted"))
        agreed = claim.version.startswith(AGREED)
        return NewCode(was, now, agreed, back=claim.went_back, number=len(facts) + 1, before=before)
    if not facts:
        return None
    last = max(facts, key=lambda step: number_of(step.key))
    return NewCode(from_json(last.result or "{}").get("was", ""), now, noted=True)


def is_change(step: Step) -> bool:
    """Whether the step notes that the run changed to other code."""
    return step.state == "fact" and (step.key == FACT or step.key.startswith(f"{FACT} "))


def is_note(step: Step) -> bool:
    """Whether the step is a note about the run, and not part of it."""
    return is_change(step) or step.key == UNASKED_FACT


def number_of(key: str) -> int:
    """The number of the change: `version` is the first, `version 2` the second."""
    return int(key.removeprefix(FACT) or 1)


def not_asked_for(steps: Collection[Step], asked: Collection[str]) -> list[str]:
    """The names of steps that an earlier attempt finished and this one did not ask for. Those from before a return, at positions below
    0, need not be asked for again.
    """
    return [step.name for step in steps if step.state in FINISHED and step.key not in asked and step.position >= 0]


def version_of(function: Callable[..., Any], options: AgentOptions) -> str:
    """The version of an agent's code: as given, or a digest of its source."""
    if options.version is not None:
        return options.version
    try:
        return _version_of_source(function)
    except TypeError:  # an object that cannot be hashed cannot be cached
        return _version_of_source.__wrapped__(function)


@lru_cache(maxsize=1024)
def _version_of_source(function: Callable[..., Any]) -> str:
    """A digest of the function's source, or of its code if the source is not available."""
    inner: Any = inspect.unwrap(function)
    while hasattr(inner, "func"):  # functools.partial
        inner = inspect.unwrap(inner.func)
    if not hasattr(inner, "__code__"):
        inner = getattr(type(inner), "__call__", inner)  # noqa: B004 looked up, not tested
    try:
        text = inspect.getsource(inner)
    except (OSError, TypeError):
        text = _text_of(getattr(inner, "__code__", None), repr(type(function)))
    return digest(text, size=5)


def _text_of(code: CodeType | None, otherwise: str) -> str:
    if code is None:
        return otherwise
    constants = [_text_of(one, "") if isinstance(one, CodeType) else repr(one) for one in code.co_consts]
    return " ".join([code.co_code.hex(), *code.co_names, *constants])


def _fact(key: str, told: dict[str, Any], moment: Microseconds) -> Step:
    return Step(key, key, "fact", to_json(told).decode(), started_at=moment, finished_at=moment)
