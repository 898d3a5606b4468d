"""why, for input: the story of a source, and of quarantined input."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wakeful.clock import SECOND, readable
from wakeful.errors import NotFound
from wakeful.resources import sources
from wakeful.resources.desk import Desk
from wakeful.stores.verbs.take_in import TOLD_THEN
from wakeful.why.schedule import at
from wakeful.why.story import Story, story_about

Shown = Mapping[str, Any]


async def why_source(desk: Desk, name: str) -> Story | None:
    """The story of a source, by its name; None if there is none."""
    try:
        found = await sources.find(desk, name)
    except NotFound:
        message = f"several apps have a source {name}: choose one with `wakeful sources {name} --of APP`"
        raise NotFound(message) from None
    if found is None:
        return None
    story = [tell_what(found), *tell_state(found), *tell_brought(found)]
    story += [f"An alarm is open: {one['text']}." for one in found["alarms"] if one["state"] != "resolved"]
    return story_about("source", found["name"], story)


def tell_what(one: Shown) -> str:
    wakes = f" It wakes {', '.join(one['agents'])}." if one["agents"] else ""
    return f"Source {one['name']} of app {one['app']} is a {one['kind']}.{wakes}"


def tell_state(one: Shown) -> list[str]:
    since = at(one["since"])
    told = []
    match one["state"]:
        case "failing":
            told.append(f"Reading it has failed since {since}: {ended(one['reason'])} It is retried automatically.")
        case "paused":
            told.append(f"It has been paused since {since}: {ended(one['reason'])} It resumes automatically.")
        case "unserved":
            told.append(f"It has not been served since {since}.")
        case "idle":
            told.append(f"It has been idle since {since}: no process reads it.")
        case _:
            told.append(f"It has been read since {since}.")
    holder = one["holder"]
    if holder is not None and holder["alive"]:
        told.append(f"Its reader is pid {holder['pid']} on {holder['host']}.")
    if one["unread"] is not None:
        told.append(f"{one['unread'][:1].upper()}{ended(one['unread'][1:])}")
    if one["lag"] is not None:
        behind = "" if one["behind"] is None else f", and at least {one['behind']:,} more were waiting"
        told.append(f"The last item read was {readable(round(one['lag'] * SECOND))} old{behind}.")
    return told


def tell_brought(one: Shown) -> list[str]:
    last = "; none has arrived" if one["event_at"] is None else f"; the last arrived at {at(one['event_at'])}"
    told = [f"It brought {one['taken']:,} events, {one['repeated']:,} of them duplicates{last}."]
    if one["refused"]:
        told.append(f"{one['refused']:,} were refused.")
    if one["quarantined"]:
        told.append(
            f"{one['quarantined']:,} could not be accepted, of which {one['kept']:,} wait for a person: "
            f"`wakeful quarantine --source {one['name']}`."
        )
    return told


# quarantine


def tell_quarantined(event: Shown) -> list[str]:
    """Why an input was quarantined, and what happened to it."""
    reason = ended(event["reason"] or "no reason was given")
    held = event.get("quarantine")
    if held is None:
        return [f"It is quarantined: {reason}"]
    why = "verified" if held["kind"] == "unverified" else "read"
    told = [f"The input from source {held['source']} could not be {why}: {reason} It was quarantined, and nothing ran."]
    if held["state"] == "kept" and reason.rstrip(".").endswith(TOLD_THEN):
        told.append(
            "Fix that, and its source sends it again. This entry then closes; it cannot be released. "
            f"`wakeful quarantine discard {event['key']}` discards it now."
        )
        return told
    if held["state"] == "kept":
        told.append(
            f"It is kept until a person acts: `wakeful quarantine show {event['key']}` shows it, `wakeful quarantine release "
            f"APP {event['key']}` accepts it after a fix, `wakeful quarantine discard {event['key']}` discards it."
        )
        return told
    note = f" ({held['note'].rstrip('.')})" if held["note"] else ""
    told.append(f"{held['settled_by']} {held['state']} it at {at(held['settled_at'])}{note}.")
    if held["became"] is not None:
        key, count = held["became"]["key"], held["became"]["events"]
        what = "an event" if count == 1 else f"{count:,} events, the first of them"
        told.append(f"It became {what} {key}: see `wakeful why {key}`.")
    return told


def tell_released_from(event: Shown) -> list[str]:
    """The quarantine entry that an event was released from."""
    first = event.get("released_from")
    if first is None:
        return []
    return [
        f"It was quarantined before, and {first['by']} released it at {at(first['at'])}: see `wakeful why {first['key']}`."
    ]


def ended(words: str) -> str:
    return words if words.endswith((".", "!", "?")) else f"{words}."
