"""The story of an expectation: what should happen by when, and its current state."""

from __future__ import annotations

from wakeful.resources import expectations
from wakeful.resources.desk import Desk
from wakeful.why.story import Story, story_about
from wakeful.why.words import Shown, at


async def why_expected(desk: Desk, name: str) -> Story | None:
    """The story of the expectations with this name, or None."""
    found = [one for one in await expectations.expectations(desk) if one["name"] == name]
    if not found:
        return None
    story = [sentence for one in found for sentence in tell_expected(one)]
    return story_about("expectation", name, story)


def tell_expected(one: Shown) -> list[str]:
    what = {"schedule": "Schedule", "source": "Source"}.get(one["kind"], "Expectation")
    told = [f"{what} {one['name']} of app {one['app']}: {one['what']}."]
    match one["state"]:
        case "absent":
            told.append(f"It is not met: {one['reason']}.")
        case "excused":
            told.append(f"Nothing is expected of it now: {one['reason']}.")
        case state:
            told.append(f"It is {state}: {one['reason']}.")
    told.append("It was never met." if one["met_at"] is None else f"It was last met at {at(one['met_at'])}.")
    if one["due_at"] is not None:
        told.append(f"An alarm is raised if this has not happened by {at(one['due_at'])}.")
    return told
