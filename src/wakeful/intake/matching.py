"""Does an event fit what a run waits for? Asked inside the transaction that stores the one or the other."""

from __future__ import annotations

from functools import lru_cache

from pydantic_core import from_json, to_json

from wakeful.cel import Condition, Match, compile_condition
from wakeful.intake.cloudevents import from_envelope
from wakeful.model import Event
from wakeful.stores.base import DATA_OF_MISFIT

CONDITIONS_KEPT = 1024
LONGEST_REASON = 500
SHOWN_OF_DATA = 200  # characters, beside a condition that could not be asked of it


@lru_cache(maxsize=CONDITIONS_KEPT)
def condition_of(expression: str) -> Condition:
    """The condition of a wait; ConfigError for one that is wrong."""
    return compile_condition(expression, where="run.wait_for", values=True)


def fits(expression: str, variables: str | None, envelope: str) -> Match:
    """The condition of a wait, its variables as JSON, and an event as it is stored. Where there is no answer, the reason shows
    what was asked of what.
    """
    values = None if variables is None else from_json(variables)
    condition, event = condition_of(expression), from_envelope(envelope)
    match = condition.matches(event, values)
    return Match(matched=False, reason=misfit(condition, match, event), misfit=True) if match.misfit else match


def misfit(condition: Condition, match: Match, event: Event) -> str:
    """Why a condition could not be asked of an event, with the condition and the beginning of the data."""
    told = match.reason.removesuffix(": counts as no match")[:LONGEST_REASON]
    asked = "" if condition.expression in told else f', which where "{condition.expression}" asks for'
    data = to_json(event.data).decode()
    shown = data if len(data) <= SHOWN_OF_DATA else data[:SHOWN_OF_DATA] + "…"
    return f"{told}{asked}{DATA_OF_MISFIT}{shown}"
