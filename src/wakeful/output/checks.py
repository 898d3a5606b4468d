"""Checks of a run's output before anything leaves: first its type, then the agent's own checks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from wakeful.functions.call import CHECK_LIMIT, call
from wakeful.functions.options import name_of
from wakeful.stored_errors import words_of
from wakeful.values import plain

SHOWN = 3


@dataclass(frozen=True, slots=True)
class Checked:
    """The output as its type reads it, and the objection that holds it back, if any."""

    output: Any
    verification: Literal["passed", "failed", "none"] = "none"
    objection: str | None = None


async def check_output(
    output: Any, returns: TypeAdapter[Any] | None, checks: Sequence[Callable[[Any], Any]]
) -> Checked:
    """Check an output. The first problem decides: checks only see output of the right type."""
    if returns is None and not checks:
        return Checked(output)
    if returns is not None:
        try:
            output = returns.validate_python(output)
        except ValidationError as error:
            lines = [
                f"{'.'.join(str(part) for part in one['loc']) or 'output'}: {one['msg']}"
                for one in error.errors(include_url=False, include_input=False)[:SHOWN]
            ]
            return Checked(output, "failed", "the output does not fit its return type: " + "; ".join(lines))
    for check in checks:
        try:
            answer = await call(check, (output,), {}, what=f"check {name_of(check)}", limit=CHECK_LIMIT)
        except Exception as error:
            words = plain(f"check {name_of(check)}: {type(error).__name__}: {words_of(error)}")
            return Checked(output, "failed", words)
        if answer is False or isinstance(answer, str):
            return Checked(output, "failed", plain(f"check {name_of(check)}: {answer or 'did not pass'}"))
    return Checked(output, "passed")
