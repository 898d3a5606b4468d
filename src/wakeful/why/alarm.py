"""why, for an alarm: its text, when it opened, its notifications, what people did about it, and its runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wakeful.errors import NotFound
from wakeful.resources import alarms, runs
from wakeful.resources.desk import Desk
from wakeful.why.story import Story, story_about
from wakeful.why.words import at, number

Shown = Mapping[str, Any]
SHORTEST_PREFIX = 6
SHOWN_RUNS = 5


async def why_alarm(desk: Desk, identifier: str) -> Story | None:
    """The story of an alarm, by its key or the beginning of it; None if there is none."""
    alarm = await find_alarm(desk, identifier)
    if alarm is None:
        return None
    ids = await alarms.runs_of(desk, alarm["key"])
    about = [found for one in ids[:SHOWN_RUNS] if (found := await runs.find(desk, one)) is not None]
    return story_about("alarm", alarm["key"], tell_alarm(alarm, ids), runs=about)


async def find_alarm(desk: Desk, identifier: str) -> Shown | None:
    """The alarm with this key or beginning of a key, or None. NotFound lists the candidates if there are several."""
    found = await alarms.find(desk, identifier)
    if found is not None or len(identifier) < SHORTEST_PREFIX:
        return found
    alike = [one["key"] for one in await alarms.alarms(desk) if one["key"].startswith(identifier)]
    if len(alike) > 1:
        message = f'"{identifier}" is the beginning of several alarms. Which one? {", ".join(alike[:SHOWN_RUNS])}'
        raise NotFound(message)
    return await alarms.find(desk, alike[0]) if alike else None


def tell_alarm(alarm: Shown, runs: list[str]) -> list[str]:
    story = [f"Alarm {alarm['key']} of app {alarm['app']} is {alarm['state']}: {alarm['text'].rstrip('.')}."]
    again = (
        f" It happened {number(alarm['count'], 'time')}, most recently at {at(alarm['last_at'])}."
        if alarm["count"] > 1
        else ""
    )
    story.append(f"It opened at {at(alarm['opened_at'])}.{again}")
    if alarm["told_at"] is not None:
        story.append(f"It was sent {number(alarm['told'], 'time')}, most recently at {at(alarm['told_at'])}.")
    if alarm["acknowledged_at"] is not None:
        story.append(f"{alarm['acknowledged_by']} acknowledged it at {at(alarm['acknowledged_at'])}.")
    if alarm["muted_until"] is not None:
        story.append(f"It is muted until {at(alarm['muted_until'])}.")
    if alarm["resolved_at"] is not None:
        story.append(f"It was resolved at {at(alarm['resolved_at'])}.")
    for one in alarm["changes"]:
        note = f": {one['note'].rstrip('.')}" if one["note"] else ""
        story.append(f"{one['by']} did {one['verb']} at {at(one['at'])}{note}.")
    if runs:
        shown = ", ".join(runs[:SHOWN_RUNS]) + (" and more" if len(runs) > SHOWN_RUNS else "")
        story.append(f"It is about run {shown}: see `wakeful why {runs[0]}`.")
    if alarm["state"] != "resolved" and alarm.get("do"):
        story.append(f"What to do: {alarm['do']}")
    return story
