"""Whether an event fits a run's wait. Checked inside the transaction that stores the event or the wait."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from pydantic_core import from_json, to_json

from wakeful.cel import Condition, Match, compile_condition
from wakeful.intake.cloudevents import from_envelope
from wakeful.model import Event
from wakeful.stores.verbs.misfits import DATA_OF_MISFIT

CONDITIONS_KEPT = 1024
LONGEST_REASON = 500
SHOWN_OF_DATA = 200  # characters, shown beside a condition that could not be evaluated


@lru_cache(maxsize=CONDITIONS_KEPT)
def condition_of(expression: str) -> Condition:
    """The condition of a wait. ConfigError for an invalid one."""
    return compile_condition(expression, where="run.wait_for", values=True)


@lru_cache(maxsize=CONDITIONS_KEPT)
def stored_condition(expression: str) -> Condition | Match:
    """The condition of a stored wait; for one that cannot be used, the answer to every event."""
    try:
        return condition_of(expression)
    except Exception as error:  # a wrong condition in the store must not refuse events
        told = str(error).removeprefix("run.wait_for: ")
        return Match(
            matched=False, reason=f"the condition of the wait cannot be used: {told}"[:LONGEST_REASON], misfit=True
        )


def fits(expression: str, variables: str | None, envelope: str) -> Match:
    """Whether a stored event matches the condition of a wait, whose values are JSON. If there is no answer, the reason
    shows the condition and the data. Nothing stored with the wait can make this raise: the event's sender could not fix
    it.
    """
    condition = stored_condition(expression)
    if isinstance(condition, Match):
        return condition
    try:
        values = None if variables is None else from_json(variables)
    except ValueError:
        return Match(matched=False, reason="the values of the wait are not JSON", misfit=True)
    event = from_envelope(envelope)
    match = condition.matches(event, values)
    return replace(match, reason=misfit(condition, match, event)) if match.misfit else match


def misfit(condition: Condition, match: Match, event: Event) -> str:
    """Why a condition could not be evaluated for an event, with the condition and the beginning of the data."""
    told = match.reason.removesuffix(": counts as no match")[:LONGEST_REASON]
    asked = "" if condition.expression in told else f', which where "{condition.expression}" needs'
    data = to_json(event.data).decode()
    shown = data if len(data) <= SHOWN_OF_DATA else data[:SHOWN_OF_DATA] + "…"
    return f"{told}{asked}{DATA_OF_MISFIT}{shown}"
