"""The agent that sends reminders: Wakeful's own, in every app. It checks whether one is still needed and sends one
message.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from wakeful.cel import compile_condition
from wakeful.clock import duration, readable, to_text
from wakeful.execution.attempt import current_attempt
from wakeful.execution.run import Run
from wakeful.functions.options import step
from wakeful.intake.cloudevents import from_envelope
from wakeful.stores.verbs.reminders import BEFORE_ALL, CameSince, came_since
from wakeful.triggers.reminders import Memo, usual_channel

# A reminder that is later than this says so.
ON_TIME = timedelta(minutes=1)


async def tell(run: Run, memo: Memo) -> dict[str, Any]:
    """What became of a reminder: told, or not needed because of an event that came."""
    name = run.event.source.rpartition("/")[2]
    if memo.unless is not None:

        @step(name="look whether it is needed")
        async def look() -> dict[str, Any] | None:
            return await find_needless(run, memo)

        came = await run.step(look)
        if came is not None:
            because = f"event {came['id']} of type {memo.unless} came at {came['accepted_at']}"
            return {"told": False, "because": because, "event": came}
    late = lateness(run)
    words = f"{memo.text} ({late} late)" if late else memo.text
    to = usual_channel(current_attempt().surroundings.channels) if memo.anywhere else memo.to
    run.send(to, words, subject=f"reminder {name}")
    return {"told": True, "to": to, "late": late}


async def find_needless(run: Run, memo: Memo) -> dict[str, Any] | None:
    """The first event since the reminder was made that makes it unnecessary."""
    condition = None if memo.where is None else compile_condition(memo.where, where="reminder")
    passed, attempt = BEFORE_ALL, current_attempt()
    store = attempt.surroundings.store
    while page := await came_since(store.database, attempt.app, memo.unless or "", memo.mark or "0", passed):
        for one in page:
            match = None if condition is None or not one.envelope else condition.matches(from_envelope(one.envelope))
            if condition is None or (match is not None and match.matched):
                return shown(one)
            if match is not None and match.exhausted:  # better to send it in vain than not at all
                run.log.warning(
                    "it is unknown whether an event makes the reminder unnecessary",
                    event_id=one.id,
                    reason=match.reason,
                )
        passed = page[-1].place
    return None


def shown(event: CameSince) -> dict[str, Any]:
    return {"id": event.id, "source": event.source, "accepted_at": to_text(event.accepted_at)}


def lateness(run: Run) -> str | None:
    """How late the run is, in words; None if it is on time."""
    late = run.late
    return None if late is None or late <= ON_TIME else readable(duration(late))
