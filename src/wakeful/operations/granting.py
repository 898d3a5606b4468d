"""Granting: find the app that is meant, and read the end and the condition of a grant."""

from __future__ import annotations

import secrets
from typing import Any

from wakeful.cel_rules import CelMistake, compile_rule
from wakeful.clock import Microseconds, duration
from wakeful.errors import InvalidTime, NotFound
from wakeful.execution.actions import parameters_by_action
from wakeful.operations.halting import apps_with_action
from wakeful.operations.pausing import apps_to_change
from wakeful.stores.reads import ReadsDatabase
from wakeful.triggers.spoken import read_time
from wakeful.triggers.zones import zone_named

LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"


def new_id() -> str:
    """A new id, short because people type it."""
    return "g-" + "".join(secrets.choice(LETTERS) for _ in range(6))


def read_until(text: str, *, now: Microseconds) -> Microseconds:
    """The end of a grant: a duration from now on, or a time. ValueError says what was understood."""
    try:
        span = duration(text.strip())
    except ValueError:
        pass
    else:
        if span > 0:
            return now + span
        message = f"{text} is over at once: write a duration like 7d, or a time to come"
        raise ValueError(message)
    try:
        return read_time(text, now=now, zone=zone_named(None, where="a time")).moment
    except InvalidTime as error:
        raise ValueError(str(error)) from None


def check_condition(condition: str, action: str | None, own: Any | None) -> None:
    """Raise ValueError if the condition is wrong. `own`: the code of the app, if it is known; then parameters are checked too."""
    # Two apps of one process may have an action of this name: then the parameters of both are known.
    parameters = None if own is None or action is None else parameters_by_action().get(action)
    try:
        compile_rule(condition, "effect", boolean=True, parameters=parameters)
    except CelMistake as mistake:
        raise ValueError(str(mistake)) from None


async def app_to_grant(
    reads: ReadsDatabase, agent: str | None, action: str | None, app: str | None, own: Any | None
) -> str:
    """The app that is meant: the named one, that of the code, or the only one that has the agent and the action. Raises NotFound."""
    if own is not None and app in {None, own.name}:
        if agent is not None:
            own.refuse_unknown(agent)
        if action is not None and not own.declares(action):
            await apps_with_action(reads, action, own.name)
        return str(own.name)
    if agent is not None:
        (app,) = await apps_to_change(reads, agent, app)
    if action is None:
        return str(app)
    using = await apps_with_action(reads, action, app)
    if len(using) > 1:
        message = f"action {action} is used in several apps ({', '.join(using)}): choose one with --of NAME"
        raise NotFound(message)
    return using[0]
