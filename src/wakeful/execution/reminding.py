"""`run.remind`: a reminder that a run makes once, together with its checkpoint."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic_core import from_json, to_json

from wakeful.clock import from_datetime, to_datetime
from wakeful.errors import ConfigError
from wakeful.execution.attempt import Attempt
from wakeful.execution.checkpoint import shown_arguments
from wakeful.execution.locks import locks_held
from wakeful.model import digest
from wakeful.stores.timing import StoredSchedule
from wakeful.stores.verbs.reminders import MakeReminder
from wakeful.triggers.reminders import Reminder, reminder_of
from wakeful.triggers.zones import zone_named
from wakeful.values import digest_of_arguments

BYTES_OF_AN_ID = 5


async def remind(attempt: Attempt, when: str | datetime, text: str, **options: Any) -> Reminder:
    """The reminder, from its record or made now. `options`: to, unless, where, tz."""
    attempt.refuse_inside("run.remind")
    if attempt.to_stop is not None:
        await attempt.begin_nothing_more()
    with attempt.at_work():
        return await _remind(attempt, when, text, **options)


async def _remind(
    attempt: Attempt,
    when: str | datetime,
    text: str,
    *,
    to: str | None,
    unless: str | None,
    where: str | None,
    tz: str | None,
) -> Reminder:
    """The id comes from the run's root and this call, so that a repeated attempt and a replay find the same reminder."""
    digested, arguments = digest_of_arguments((when, text, to, unless, where, tz), {}, of="run.remind")
    record = attempt.record
    key, shown = record.next_key("remind", digested)
    recorded = record.find(key)
    if recorded is not None and recorded.result is not None:
        return read_reminder(recorded.result)
    reminders = attempt.surroundings.reminders
    if reminders is None:
        message = f"agent {attempt.agent}: run.remind: this runtime keeps no reminders"
        raise ConfigError(message)
    name = f"r-{digest(attempt.root, key, size=BYTES_OF_AN_ID)}"
    wish = await reminders.wish(
        name,
        when,
        text,
        to=to,
        unless=unless,
        where=where,
        tz=tz,
        operator=f"run {attempt.id} of agent {attempt.agent}",
    )
    step = record.new_step(key, shown, "done", arguments=shown_arguments(arguments))
    await record.save_facts()
    request = MakeReminder(attempt.claim, step, wish, write_reminder, locks_held(attempt.claim))
    made = await attempt.surroundings.store.do(request)
    reminders.changed()
    return reminder_of(made)


def write_reminder(stored: StoredSchedule) -> str:
    """The reminder in the form that the checkpoint stores."""
    made = reminder_of(stored)
    fields = {name: getattr(made, name) for name in ("id", "app", "text", "to", "unless", "where")}
    return to_json(fields | {"due_at": from_datetime(made.due_at), "zone": made.zone}).decode()


def read_reminder(text: str) -> Reminder:
    fields = from_json(text)
    zone = zone_named(fields.pop("zone"), where="run.remind")
    due = to_datetime(fields.pop("due_at")).astimezone(zone)
    return Reminder(due_at=due, **fields)
