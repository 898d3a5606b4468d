"""Work that is retried for long: an outage is retried for a day, and raises an alarm after minutes.

    a step, an effect or a handler fails for 5 minutes      ──► retrying/APP/AGENT/WHAT
    one of them is told to wait (a rate limit) for an hour  ──► limited/APP/AGENT/WHAT

There is one alarm for all runs of an agent that fail at the same place. It is derived at each look from what is stored
with the runs, so it is over when the last of them succeeded, ended or was parked, in any process and after any crash.
Dependencies and channels have circuits with their own alarms.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic_core import from_json

from wakeful.clock import SECOND, Microseconds
from wakeful.clock import to_second as time_text
from wakeful.errors import EncryptionKeyMissing, PayloadMissing
from wakeful.stores.alarm import Alarm, cause_of
from wakeful.stores.transaction import Fetcher

TOLD_AFTER: Microseconds = 300 * SECOND
LIMITED_TOLD_AFTER: Microseconds = 3600 * SECOND
# The most rows of each kind that are read, the oldest first: the alarm is about those.
LOOKED_AT = 500
# A handler that failed and has now been running for longer than this got past the place where it failed.
A_TRY_TAKES: Microseconds = 600 * SECOND


@dataclass(frozen=True, slots=True)
class Retried:
    """A part of a run that waits to be retried."""

    agent: str
    what: str
    since: Microseconds
    limited: bool
    error: str
    until: Microseconds | None
    owner: str | None = None

    def is_to_be_told(self, now: Microseconds) -> bool:
        return now - self.since >= (LIMITED_TOLD_AFTER if self.limited else TOLD_AFTER)


async def retried(database: Fetcher, app: str, now: Microseconds) -> list[Retried]:
    """The work of an app that waits to be retried. Without the key of encrypted errors, nothing is known of them."""
    found: list[Retried] = []
    asked: tuple[tuple[str, tuple[Any, ...]], ...] = (
        ("retrying_steps", ()),
        ("retrying_effects", ()),
        ("retrying_handlers", (now - A_TRY_TAKES,)),
    )
    for query, more in asked:
        try:
            rows = await database.fetch(query, app, LOOKED_AT, *more)
        except (EncryptionKeyMissing, PayloadMissing):
            continue
        found += [one for row in rows if (one := read(*row)) is not None]
    return found


def read(agent: str, name: str, stored: str | None, owner: str | None) -> Retried | None:
    """Read a row. One that an older version stored does not say since when it fails."""
    told: Mapping[str, Any] = from_json(stored or "{}")
    since = told.get("since")
    if not since:
        return None
    # Imported here: a process that only lists expectations need not load the engine.
    from wakeful.functions.retry import signature

    error = told.get("error") or signature(str(told.get("type", "")), str(told.get("message", "")))
    limited = told.get("failure") == "rate_limited"
    return Retried(agent, name.partition("#")[0], since, limited, str(error), told.get("until"), owner)


def alarms_of(app: str, found: Iterable[Retried], now: Microseconds) -> list[Alarm]:
    """One alarm for each agent and place. Its cause stays the same while the oldest run waits for the same class of error, so that it is
    not raised again.
    """
    oldest: dict[tuple[str, str, bool], Retried] = {}
    for one in found:
        key = (one.agent, one.what, one.limited)
        if key not in oldest or one.since < oldest[key].since:
            oldest[key] = one
    return [alarm_of(app, one) for _, one in sorted(oldest.items()) if one.is_to_be_told(now)]


def alarm_of(app: str, one: Retried) -> Alarm:
    kind = "limited" if one.limited else "retrying"
    since = time_text(one.since)
    if one.limited:
        text = f"agent {one.agent}: {one.what} has been rate limited since {since} ({one.error}) and has not succeeded since"
    else:
        until = f" until {time_text(one.until)}, and then given up" if one.until else ""
        text = (
            f"agent {one.agent}: {one.what} has been failing since {since} ({one.error}). It is retried every few minutes{until}; "
            "its runs continue by themselves when it works again"
        )
    cause = cause_of(one.since, one.error.partition(":")[0])
    return Alarm(app, f"{kind}/{app}/{one.agent}/{one.what}", text, one.agent, one.owner, cause=cause)
