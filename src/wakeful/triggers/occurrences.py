"""Occurrences as they are shown, and the schedule data that an event or a run carries."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from wakeful.clock import Microseconds, from_datetime, seconds, to_text
from wakeful.triggers.schedule import TYPE, Schedule
from wakeful.triggers.zones import local, zone_named

Shown = dict[str, Any]


def moment_summary(moment: Microseconds, zone: str) -> Shown:
    """An occurrence, with the local time in its zone."""
    return {"at": to_text(moment), "local": local(moment, zone_named(zone, where="schedule")).isoformat(), "zone": zone}


def zone_of(schedule: Schedule) -> str:
    return str(schedule.rule.definition()["zone"])


def is_span(name: str, value: Any) -> bool:
    return isinstance(value, int) and name != "max_count"


# events


def schedule_of_source(app: str, source: str) -> str | None:
    """The schedule whose events have this source; None if it is not a schedule's source."""
    prefix = f"/{app}/schedules/"
    return source[len(prefix) :] if source.startswith(prefix) else None


def occurrence_of(envelope: Shown) -> Microseconds | None:
    """The occurrence that an event of a schedule names; None if it names none."""
    if envelope.get("type") != TYPE:
        return None
    try:
        return from_datetime(datetime.fromisoformat(envelope["scheduledfor"]))
    except (KeyError, TypeError, ValueError):  # an event of this type may come from another sender
        return None


def scheduled_summary(app: str, source: str, envelope: Shown, started_at: Microseconds | None) -> Shown | None:
    """For a run that a schedule started: the schedule, the occurrence, how late the run started, and what it covers."""
    name, occurrence = schedule_of_source(app, source), occurrence_of(envelope)
    if name is None or occurrence is None:
        return None
    return {
        "schedule": name,
        "for": to_text(occurrence),
        "late": None if started_at is None else seconds(max(0, started_at - occurrence)),
        "covers_from": envelope.get("coveredfrom"),
        "instants": envelope.get("coveredcount", 1),
    }
