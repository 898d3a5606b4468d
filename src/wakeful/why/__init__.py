"""why: explains in sentences what happened to an event, a run, a delivery, a schedule or a reminder, including why
nothing happened.

Stories read the views of `resources`, which the HTTP API shows, so a story cannot know more than they do. One file per
kind of story; `why` picks the one that an id belongs to.
"""

from __future__ import annotations

from wakeful.resources.desk import Reads, looking
from wakeful.resources.processes import living
from wakeful.why.alarm import why_alarm
from wakeful.why.approval import why_approval
from wakeful.why.delivery import why_delivery
from wakeful.why.effect import why_effect
from wakeful.why.event import find, refuse_two, story_of, why_quarantined, why_removed
from wakeful.why.expectation import why_expected
from wakeful.why.reminder import why_reminder
from wakeful.why.schedule import why_schedule
from wakeful.why.source import why_source
from wakeful.why.story import Story

__all__ = ["why"]


async def why(reads: Reads, identifier: str) -> Story | None:
    """The story of an event (by its id or key), a run, an effect, a delivery or an alarm (by its id or the beginning of it) or a
    schedule (by its name), and what can be done. None if nothing has this name.
    """
    desk = looking(reads)
    event, run = await find(desk, identifier)
    if run is not None and run["id"] != identifier:
        await refuse_two(desk, run, identifier)
    alive = await living(desk)
    if event is None or (run is not None and run["id"] != identifier):
        # A whole name takes precedence over the beginning of an id.
        told_schedule = await why_schedule(desk, identifier, alive)
        if told_schedule is not None:
            return told_schedule
    if event is None:
        for tell in (
            why_delivery,
            why_effect,
            why_approval,
            why_reminder,
            why_source,
            why_quarantined,
            why_removed,
            why_expected,
            why_alarm,
        ):
            if (told := await tell(desk, identifier)) is not None:
                return told
        return None
    return await story_of(desk, event, run, alive)
