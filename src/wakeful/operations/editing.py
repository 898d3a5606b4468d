"""Checking an output that a person edited: its type and all checks of its agent, with the code of the app."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pydantic import ValidationError
from pydantic_core import from_json

from wakeful.agent import Agent
from wakeful.clock import Microseconds, to_datetime
from wakeful.execution.actions import find_action
from wakeful.execution.business_key import arguments_by_name
from wakeful.intake.cloudevents import from_envelope
from wakeful.model import Effect
from wakeful.output.checks import EffectToCheck, RunToCheck, check_output, misfit
from wakeful.stores.verbs.editing import EditedOutput
from wakeful.values import to_text


class DidNotPass(Exception):
    """An edited output did not pass. The text says why."""


async def check_edited(agent: Agent, output: Any, run: RunToCheck, token: int) -> EditedOutput:
    """The edited output, ready to be stored. Raises DidNotPass with the words of the check, or NotSerialisable."""
    options = agent.options
    value = output
    if agent.returns is not None and not (output is None and options.expects_output):
        try:  # as JSON: a strict model reads a time from text only there
            value = agent.returns.validate_json(to_text(output, what="the edited output"))
        except ValidationError as error:
            raise DidNotPass(misfit(error)) from None
    checked = await check_output(value, agent.returns, options.checks, lambda: run, expected=options.expects_output)
    if checked.objection is not None or checked.verification == "failed":
        raise DidNotPass(checked.objection or "it did not pass")
    text = to_text(checked.output, what="the edited output")
    return EditedOutput(text, token, checked.verification, options.deliver)


def run_to_check(envelope: str, data: str | None, effects: Sequence[Effect], app: str, now: Microseconds) -> RunToCheck:
    """What checks may know about a stored run. `data` was given instead of the event's own."""
    event = from_envelope(envelope)
    if data is not None:
        event = replace(event, data=from_json(data))
    known = []
    for effect in effects:
        action = find_action(effect.reference, app)
        arguments = {} if action is None else arguments_by_name(action, effect.called_with)
        result = None if effect.result is None else from_json(effect.result)
        known.append(EffectToCheck(effect.action, arguments, effect.state, result))
    return RunToCheck(event, tuple(known), to_datetime(now))
