"""Does an event fit what a run waits for? Asked inside the transaction that stores the one or the other."""

from __future__ import annotations

from functools import lru_cache

from pydantic_core import from_json

from wakeful.cel import Condition, compile_condition
from wakeful.intake.cloudevents import from_envelope

CONDITIONS_KEPT = 1024


@lru_cache(maxsize=CONDITIONS_KEPT)
def condition_of(expression: str) -> Condition:
    """The condition of a wait; ConfigError for one that is wrong."""
    return compile_condition(expression, where="run.wait_for", values=True)


def fits(expression: str, variables: str | None, envelope: str) -> bool:
    """The condition of a wait, its variables as JSON, and an event as it is stored."""
    values = None if variables is None else from_json(variables)
    return condition_of(expression).matches(from_envelope(envelope), values).matched
