"""Occurrences as people see them, and what an event or a run knows of the schedule that made it."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from wakeful.clock import Microseconds, from_datetime, seconds, to_text
from wakeful.triggers.schedule import TYPE, Schedule
from wakeful.triggers.zones import local, zone_named

Shown = dict[str, Any]


def moment_summary(moment: Microseconds, zone: str) -> Shown:
    """An occurrence, and what the clock on the wall shows then."""
    return {"at": to_text(moment), "local": local(moment, zone_named(zone, where="schedule")).isoformat(), "zone": zone}


def zone_of(schedule: Schedule) -> str:
    return str(schedule.rule.definition()["zone"])


def is_span(name: str, value: Any) -> bool:
    return isinstance(value, int) and name != "max_count"


# events


def schedule_of_source(app: str, source: str) -> str | None:
    """The schedule whose events come from here."""
    prefix = f"/{app}/schedules/"
    return source[len(prefix) :] if source.startswith(prefix) else None


def occurrence_of(envelope: Shown) -> Microseconds | None:
    """The occurrence that an event of a schedule says it is of."""
    if envelope.get("type") != TYPE:
        return None
    try:
        return from_datetime(datetime.fromisoformat(envelope["scheduledfor"]))
    except (KeyError, TypeError, ValueError):  # somebody else may have sent it
        return None


def scheduled_summary(app: str, source: str, envelope: Shown, started_at: Microseconds | None) -> Shown | None:
    """Of a run that a schedule started: which one, for which occurrence, how late it started, and what it covers."""
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
