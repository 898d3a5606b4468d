"""The story of a reminder: who created it, its changes, its outcome, and the story of the run that sent it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wakeful.clock import Microseconds
from wakeful.resources import reminders
from wakeful.resources.desk import Desk
from wakeful.resources.processes import living
from wakeful.triggers.calendar_words import in_words
from wakeful.triggers.zones import zone_named
from wakeful.why.event import why_known
from wakeful.why.story import Story, story_about
from wakeful.why.words import Shown, at, moment, who_takes_it


async def why_reminder(desk: Desk, identifier: str) -> Story | None:
    """The story of a reminder, or None if there is none of that name."""
    reminder = await reminders.find(desk, identifier)
    if reminder is None:
        return None
    present = await desk.reads.time()
    alive = await living(desk)
    story = [*tell_making(reminder), *tell_became(reminder, present, alive)]
    told = None if reminder["run"] is None else await why_known(desk, reminder["run"])
    if told is None:
        return story_about("reminder", reminder["id"], story, reminder=reminder)
    stored: dict[str, Any] = {"event": told["event"], "admissions": told["admissions"], "runs": told["runs"]}
    return story_about("reminder", reminder["id"], [*story, *told["story"]], reminder=reminder, **stored)


def tell_making(reminder: Shown) -> list[str]:
    first, *later = reminder["history"]
    unless = ""
    if reminder["unless"] is not None:
        where = f" with {reminder['where']}" if reminder["where"] else ""
        unless = f", unless an event of type {reminder['unless']}{where} arrives first"
    made = f'Reminder {reminder["id"]}, "{reminder["text"]}", was created by {reminder["made_by"]} at {at(first["at"])}'
    story = [f"{made}, to be sent to channel {reminder['to']} {when(reminder, first['due_at'])}{unless}."]
    for one in later:
        note = f" ({one['note']})" if one["note"] else ""
        match one["verb"]:
            case "move" | "edit":
                moved = when(reminder, one["due_at"]).removeprefix("on ")
                story.append(f"At {at(one['at'])} {one['by']} moved it to {moved}{note}.")
            case "remove":
                story.append(f"At {at(one['at'])} {one['by']} cancelled it{note}. It was not sent.")
            case verb:
                story.append(f"At {at(one['at'])} {one['by']} did {verb}{note}.")
    return story


def tell_became(reminder: Shown, present: Microseconds, alive: Sequence[Shown]) -> list[str]:
    name, due = reminder["id"], moment(reminder["due_at"])
    change = f"`wakeful reminders move {name} WHEN` moves it, and `wakeful reminders cancel {name}` cancels it."
    match reminder["state"]:
        case "pending" if due is not None and due > present:
            return [f"It waits for its time, {when(reminder, reminder['due_at'], present)}. {change}"]
        case "pending":
            return [
                f"Its time came, {when(reminder, reminder['due_at'], present)}, and it has not been sent yet: it will be sent late.",
                *who_takes_it(alive),
                change,
            ]
        case "paused":
            return [f"It is paused: `wakeful schedules resume {name}` resumes it. {change}"]
        case "unneeded":
            return [f"It was not sent, because it was no longer needed: {reminder['reason']}."]
        case "told":
            late = f", {reminder['late']} late" if reminder["late"] else ""
            return [f"Its time came, and it was sent at {at(reminder['told_at'])}{late}."]
        case "telling":
            return ["Its time came, and a run is about to send it."]
        case "failed":
            return [f"Its time came, but it could not be sent: {reminder['reason']}."]
        case "over":
            return ["Its time came. The result of its run is no longer stored."]
        case _:
            return []


def when(reminder: Shown, due: str, present: Microseconds | None = None) -> str:
    return in_words(moment(due) or 0, zone_named(reminder["zone"], where=f"reminder {reminder['id']}"), present)
