"""Code that changes while runs are in flight: which version a run began with, and what happens when it meets another.

    continue   it goes on; recorded steps that the new code never asks for are reported at its end
    restart    what was recorded is dropped, and the handler starts from the top; effects stay in the ledger and are found
    hold       a person looks first: a replay lets it go on with the new code, a cancel ends it

A version is what the agent was given as `version=`, or a digest of its handler's source. Only the handler's own: what it
calls may change freely, steps are found by their names.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType
from typing import TYPE_CHECKING, Any

from pydantic_core import from_json, to_json

from wakeful.model import Claim, Step, digest

if TYPE_CHECKING:
    from wakeful.clock import Microseconds
    from wakeful.execution.options import AgentOptions

FACT = "version"  # it went over from one version to another
UNASKED_FACT = "not asked for"
AGREED = "~"  # before a version: a person let the run go on, whatever code it meets
FINISHED = frozenset({"done", "failed"})
NOTES = frozenset({FACT, UNASKED_FACT})  # about the run, and no part of it


@dataclass(frozen=True, slots=True)
class Change:
    """A run meets other code than it began with. `agreed`: a person said that it may go on; `noted`: it has gone over to that
    code in an earlier attempt.
    """

    was: str
    now: str
    agreed: bool = False
    noted: bool = False

    def __str__(self) -> str:
        return f"its code changed since it began: version {self.was} then, {self.now} now"

    def fact(self, moment: Microseconds, *, restarted: bool) -> Step:
        """Recorded with the run, so that a later attempt knows it too."""
        told = {"was": self.was, "now": self.now, "restarted": restarted}
        return _fact(FACT, told, moment)

    def unasked(self, names: Collection[str], moment: Microseconds) -> Step:
        """What the new code never asked for."""
        return _fact(UNASKED_FACT, {"was": self.was, "now": self.now, "steps": list(names)}, moment)


def change_of(claim: Claim, now: str) -> Change | None:
    """Does a run meet other code? Not one that is committed: there is nothing left for its handler to do."""
    if claim.version is None or claim.first_start or claim.committed is not None:
        return None
    was = claim.version.removeprefix(AGREED)
    if was != now:
        return Change(was, now, agreed=claim.version.startswith(AGREED))
    fact = next((step for step in claim.steps if step.key == FACT), None)
    return None if fact is None else Change(from_json(fact.result or "{}").get("was", ""), now, noted=True)


def not_asked_for(steps: Collection[Step], asked: Collection[str]) -> list[str]:
    """Steps that an earlier attempt finished and this one did not ask for, as people know them."""
    return [step.name for step in steps if step.state in FINISHED and step.key not in asked]


def version_of(function: Callable[..., Any], options: AgentOptions) -> str:
    """The version of an agent's code: as given, or by its source."""
    if options.version is not None:
        return options.version
    try:
        return _version_of_source(function)
    except TypeError:  # an object that cannot be hashed cannot be remembered
        return _version_of_source.__wrapped__(function)


@lru_cache(maxsize=1024)
def _version_of_source(function: Callable[..., Any]) -> str:
    """By the source that it was written in, or by what became of that where the source is not there."""
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
