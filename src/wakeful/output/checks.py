"""Checks of a run's output before anything leaves: first its type, then the agent's own checks."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from wakeful.functions.call import CHECK_LIMIT, call
from wakeful.functions.options import name_of
from wakeful.model import EffectState, Event
from wakeful.stored_errors import words_of
from wakeful.values import plain

SHOWN = 3
NO_OUTPUT = "the agent is expected to return an output"


@dataclass(frozen=True, slots=True)
class EffectToCheck:
    """A use of an action by the run. A staged one has not happened yet."""

    name: str
    arguments: dict[str, Any]  # by the names of the parameters
    state: EffectState
    result: Any = None


@dataclass(frozen=True, slots=True)
class RunToCheck:
    """What a check may know about the run, besides its output."""

    event: Event
    effects: tuple[EffectToCheck, ...]
    now: datetime


@dataclass(frozen=True, slots=True)
class Checked:
    """The output as its type reads it, and the objection that holds it back, if any."""

    output: Any
    verification: Literal["passed", "failed", "none"] = "none"
    objection: str | None = None


async def check_output(
    output: Any,
    returns: TypeAdapter[Any] | None,
    checks: Sequence[Callable[..., Any]],
    about: Callable[[], RunToCheck],
    *,
    expected: bool = False,
) -> Checked:
    """Check an output. The first problem decides: checks only see output of the right type. `about` is called if a check
    has a second parameter. `expected`: None is a problem too.
    """
    if expected and output is None:
        return Checked(output, "failed", NO_OUTPUT)
    if returns is None and not checks:
        return Checked(output)
    if returns is not None:
        try:
            output = returns.validate_python(output)
        except ValidationError as error:
            return Checked(output, "failed", misfit(error))
    known: RunToCheck | None = None
    for check in checks:
        given: tuple[Any, ...] = (output,)
        try:
            if takes_run(check):
                known = about() if known is None else known
                given = (output, known)
            answer = await call(check, given, {}, what=f"check {name_of(check)}", limit=CHECK_LIMIT)
        except Exception as error:
            words = plain(f"check {name_of(check)}: {type(error).__name__}: {words_of(error)}")
            return Checked(output, "failed", words)
        if answer is False or isinstance(answer, str):
            return Checked(output, "failed", plain(f"check {name_of(check)}: {answer or 'did not pass'}"))
    return Checked(output, "passed")


def misfit(error: ValidationError) -> str:
    lines = [
        f"{'.'.join(str(part) for part in one['loc']) or 'output'}: {one['msg']}"
        for one in error.errors(include_url=False, include_input=False)[:SHOWN]
    ]
    return "the output does not fit its return type: " + "; ".join(lines)


def takes_run(check: Callable[..., Any]) -> bool:
    """Whether a check has a second parameter, which has no default: it gets the run."""
    try:
        return _takes_run(check)
    except TypeError:  # an object that cannot be hashed cannot be cached
        return _takes_run.__wrapped__(check)


@lru_cache(maxsize=1024)
def _takes_run(check: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(check).parameters.values()
    except ValueError:  # a builtin without a signature
        return False
    required = [
        one
        for one in parameters
        if one.kind in {one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD} and one.default is one.empty
    ]
    return len(required) >= 2
