"""why, for time: the story of a schedule, and of the occurrence behind an event or a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from wakeful.clock import SECOND, Microseconds, readable
from wakeful.errors import NotFound
from wakeful.resources import pauses, runs, schedule_reading
from wakeful.resources.desk import Desk
from wakeful.stores.known import living_agents
from wakeful.triggers.zones import shown_time
from wakeful.why.checks import tell_check
from wakeful.why.story import Story, story_about

Shown = Mapping[str, Any]

TOLD_CHANGES = 3
TOLD_OCCURRENCES = 3
# An occurrence that fires no later than this is on time.
ON_TIME: Microseconds = SECOND
# A real interval that deviates by more than this fraction is worth a sentence.
WORTH_A_SENTENCE = 0.05
DID = {
    "add": "created it",
    "edit": "edited it",
    "pause": "paused it",
    "resume": "resumed it",
    "remove": "removed it",
    "fire": "fired it by hand",
    "move": "moved it",
}


async def why_schedule(desk: Desk, name: str, alive: Sequence[Shown]) -> Story | None:
    """The story of a schedule, by its name, or by APP/NAME if several apps have it; None if there is none."""
    app, slash, own = name.partition("/")
    try:
        found = await schedule_reading.find(desk, name)
        found = await schedule_reading.find(desk, own, app=app) if found is None and slash else found
    except NotFound:
        message = f"several apps have a schedule {name}: choose one with `wakeful why APP/{name}`"
        raise NotFound(message) from None
    if found is None or found["origin"] == "reminder":  # reminders have their own story
        return None
    present = await desk.reads.time()
    story = [tell_what(found), *tell_changes(found)]
    story += tell_last(found, present)
    story += tell_ledger(found)
    story += tell_cadence(found)
    story += await tell_check(desk, found)
    story += await tell_queued(desk, found)
    story += await tell_next(desk, found, present, alive)
    story += [f"An alarm is open: {one['text']}." for one in found["alarms"] if one["state"] != "resolved"]
    return story_about("schedule", found["name"], story, schedule=found)


def tell_what(found: Shown) -> str:
    origin = {
        "code": "It is declared in code.",
        "runtime": "It was created at run time.",
        "reminder": "It is a reminder.",
        "heartbeat": "It comes from a heartbeat's file.",
    }[found["origin"]]
    return f"Schedule {found['name']} wakes agent {found['agent']} of app {found['app']} by {found['rule']}. {origin}"


def tell_changes(found: Shown) -> list[str]:
    """The latest changes by people; not those made by code at start-up."""
    told = [one for one in found["changes"] if one["operator"] != "code"][:TOLD_CHANGES]
    return [
        f"{one['operator']} {DID[one['verb']]} at {at(one['changed_at'])}{': ' + one['note'].rstrip('.') if one['note'] else ''}."
        for one in reversed(told)
    ]


def tell_last(found: Shown, present: Microseconds) -> list[str]:
    last = found["last"]
    if last is None:
        return ["It has not fired yet."]
    late = (moment(last["fired_at"]) or 0) - (moment(last["at"]) or 0)
    words = "on time" if late <= ON_TIME else f"{readable(late)} late"
    ago = readable(max(0, present - (moment(last["at"]) or present)))
    state = f"is {last['state']}" if last["state"] else "is no longer stored"
    words = f"It last fired for {on_the_wall(last)}, {ago} ago, {words}: run {last['run']}, which {state}."
    return [f"{words} See `wakeful why {last['run']}`."]


def tell_ledger(found: Shown) -> list[str]:
    """The occurrences that did not fire since the last one that did, and the counts of all."""
    told = []
    for one in found["occurrences"][:TOLD_OCCURRENCES]:
        if one["state"] == "fired":
            break
        told.append(tell_occurrences(one))
    counts, since = found["counts"], found["counts"]["since"]
    parts = [f"{counts[what]:,} {what}" for what in ("missed", "skipped", "coalesced", "superseded") if counts[what]]
    if parts:
        told.append(
            f"Of its occurrences since {at(since)}, {counts['fired']:,} fired, {', '.join(parts)}: "
            f"`wakeful schedules show {found['name']}` lists them."
        )
    return told


def tell_occurrences(one: Shown) -> str:
    """A row of the ledger that did not fire."""
    what = occurrences(one)
    because = (one["reason"] or "no reason was given").rstrip(".")
    later = f" {one['redone']:,} of them were run later." if one["redone"] else ""
    match one["state"]:
        case "missed":
            return f"{what} missed: {because}.{later}"
        case "skipped":
            return f"{what} skipped: {because}.{later}"
        case "coalesced":
            return f"{what} not fired individually: run {one['run']} covers them.{later}"
        case other:
            return f"{what} {other}: {because}.{later}"


def occurrences(one: Shown) -> str:
    if one["count"] == 1:
        return f"Its occurrence of {at(one['from'])} was"
    return f"{one['count']:,} occurrences, from {at(one['from'])} to {at(one['to'])}, were"


def tell_cadence(found: Shown) -> list[str]:
    cadence = found["cadence"]
    if cadence["drift"] is None or abs(cadence["drift"]) <= WORTH_A_SENTENCE:
        return []
    real, configured = (readable(round(cadence[one]) * SECOND) for one in ("real", "configured"))
    return [f"Over its last {cadence['firings']} occurrences it fired every {real}; its rule says every {configured}."]


async def tell_queued(desk: Desk, found: Shown) -> list[str]:
    """Due occurrences that are queued, and what they wait for."""
    queued = found["queued"]
    if queued is None:
        return []
    what = f"{queued['count']:,} of its occurrences, the last of {at(queued['to'])}," if queued["count"] > 1 else ""
    what = what or f"Its occurrence of {at(queued['to'])}"
    wait = "wait" if queued["count"] > 1 else "waits"
    if not queued["waits_for"]:
        return [f"{what} {wait} to be fired by a process that has agent {found['agent']}."]
    run = await runs.find(desk, queued["waits_for"])
    state = "" if run is None else f": it is {run['state']}"
    together = " They will fire as one." if queued["count"] > 1 else ""
    words = f"{what} {wait}, because run {queued['waits_for']} has not finished{state}.{together}"
    return [f"{words} `wakeful why {queued['waits_for']}` explains that run."]


async def tell_next(desk: Desk, found: Shown, present: Microseconds, alive: Sequence[Shown]) -> list[str]:
    """The next occurrence, and what prevents it."""
    name = found["name"]
    match found["state"]:
        case "removed":
            return [f"It was removed by {found['changed_by']} at {at(found['changed_at'])} and will not fire again."]
        case "done":
            return ["It has no occurrence left and will not fire again."]
        case "paused":
            since = f"It has been paused since {at(found['changed_at'])} by {found['changed_by']}"
            return [f"{since}: occurrences that come due are skipped. `wakeful schedules resume {name}` resumes it."]
        case _:
            pass
    if found["next"] is None:
        return []
    due = moment(found["due_at"]) or present
    if due > present:
        told = [f"It fires next for {on_the_wall(found['next'])}, {readable(due - present)} from now."]
    else:
        told = [f"It has been due since {at(found['due_at'])}, for {on_the_wall(found['next'])}."]
    if not alive:
        told.append("No worker is alive on this store: start one with `wakeful serve APP` or `wakeful worker APP`.")
    elif found["agent"] not in await living_agents(desk.reads, found["app"]):
        told.append(
            f"No live worker has agent {found['agent']} of app {found['app']}: nothing fires until one does. "
            "Was the agent renamed, or is its app not running?"
        )
    told += [
        f"Agent {one['agent'] or found['agent']} is paused by {one['by']}: what fires waits until `wakeful resume`."
        for one in await pauses.pauses(desk)
        if one["app"] == found["app"] and one["agent"] in {None, found["agent"]} and one["paused"]
    ]
    return told


# events and runs


async def tell_occurrence(desk: Desk, event: Shown) -> list[str]:
    """The occurrence that an event stands for; empty for an event that no schedule created."""
    envelope = event.get("envelope") or {"type": event["type"], "scheduledfor": event["id"]}
    found = await schedule_reading.occurrence(desk, event["app"], event["source"], envelope)
    if found is None:
        return []
    name, became, merged = found["schedule"], found["became"], found["coalesced"]
    if became is not None and became["state"] == "fired" and became["reason"]:
        return [f"Schedule {name} ({found['rule']}) was fired {became['reason']}."]
    story = [f"It is the occurrence of schedule {name} ({found['rule']}) for {on_the_wall(found)}."]
    if became is not None:
        late = (moment(became["settled_at"]) or 0) - (moment(found["at"]) or 0)
        words = "on time" if late <= ON_TIME else f"{readable(late)} late"
        if became["state"] == "fired":
            story.append(f"It was fired {words}.")
        else:
            story.append(tell_occurrences(became))
    if merged is not None:
        these = (
            "the occurrence" if merged["count"] == 1 else f"{merged['count']:,} occurrences, from {at(merged['from'])}"
        )
        to = f"of {at(merged['to'])}" if merged["count"] == 1 else f"to {at(merged['to'])}"
        story.append(f"It also covers {these} {to}, which had not fired.")
    return story


# words


def on_the_wall(occurrence: Shown) -> str:
    """2026-03-30 08:00 Europe/London"""
    wall = datetime.fromisoformat(occurrence["local"])
    return f"{wall.strftime('%Y-%m-%d %H:%M:%S' if wall.second else '%Y-%m-%d %H:%M')} {occurrence['zone']}"


def moment(text: str | None) -> Microseconds | None:
    return None if text is None else round(datetime.fromisoformat(text).timestamp() * SECOND)


at = shown_time
