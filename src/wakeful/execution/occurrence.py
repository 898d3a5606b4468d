"""What a run knows of the occurrence that started it, read from its event."""

from __future__ import annotations

from datetime import datetime

from wakeful.model import Event
from wakeful.triggers.schedule import TYPE


def scheduled_for(event: Event) -> datetime | None:
    """The occurrence of a schedule's event; None for other events."""
    return _time(event, "scheduledfor")


def interval(event: Event) -> tuple[datetime, datetime] | None:
    """The span from the occurrence before the first one that it covers, up to its own."""
    start, end = _time(event, "coveredfrom"), _time(event, "scheduledfor")
    return None if start is None or end is None else (start, end)


def facts_of(run: str, agent: str, event: Event) -> dict[str, str]:
    """The variables that tell a child process about its run. A command's program also gets the event, in a file."""
    facts = {"WAKEFUL_RUN_ID": run, "WAKEFUL_AGENT": agent}
    if (occurrence := scheduled_for(event)) is not None:
        facts["WAKEFUL_SCHEDULED_FOR"] = occurrence.isoformat()
    return facts


def _time(event: Event, name: str) -> datetime | None:
    text = event.extensions.get(name) if event.type == TYPE else None
    try:
        return None if text is None else datetime.fromisoformat(text)
    except (TypeError, ValueError):  # an event of this type from outside may hold anything
        return None
