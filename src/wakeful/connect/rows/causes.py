"""Marks changes that an agent of ours wrote: its run writes a mark with its rows, and the change that comes back carries it.

    run ──► its transaction: rows + mark ──► the database's log ──► reader ──► Change.cause ──► event: causedby, chaindepth, …

The mark is `run.cause`, a text. Anyone with write access to the database can write anything there: an invalid mark is ignored, and
the change becomes an event all the same. A mark of another app or store is a cause too.
"""

from __future__ import annotations

from typing import Any

from pydantic_core import from_json, to_json

from wakeful.errors import InvalidEvent
from wakeful.intake.cloudevents import TEXT_LIMIT
from wakeful.intake.untrusted import DEPTH_LIMIT, refuse_faults
from wakeful.model import Event
from wakeful.policy.loops import CAUSED_BY, DEPTH, PATH, PATH_LIMIT, ROOT, next_link, read_chain

LIMIT = 8_000
# Where a mark is written: the prefix of a logical message, a setting of the transaction, a table that is empty outside of one.
MESSAGE_PREFIX = "wakeful"
SETTING = "wakeful.cause"
TABLE = "wakeful_cause"


def cause_of(event: Event, *, app: str, agent: str, run: str) -> str:
    """The mark of a run that handles an event."""
    mark = {
        "app": app,
        "agent": agent,
        "run": run,
        "event": event.id,
        "correlationid": event.correlationid or event.id,
        **next_link(event, app, agent),
    }
    return to_json(mark).decode()


def stamp(event: Event, cause: str | None) -> None:
    """Record on an event which run caused the change."""
    mark = None if not cause or len(cause) > LIMIT else _read(cause)
    if mark is None:
        return
    run, caused, correlation = mark["run"], mark.get("event"), mark.get("correlationid")
    event.extensions[CAUSED_BY] = run
    if _is_text(caused):
        event.causationid = caused
    if _is_text(correlation):
        event.correlationid = correlation
    chain = read_chain(mark, event.correlationid or run)
    if chain is not None:
        event.extensions[DEPTH] = chain.depth
        event.extensions[ROOT] = chain.root
        if isinstance(mark.get(PATH), str):
            event.extensions[PATH] = mark[PATH][-PATH_LIMIT:]


def _read(cause: str) -> dict[str, Any] | None:
    try:
        mark = from_json(cause)
        refuse_faults(mark, depth=DEPTH_LIMIT)
    except (ValueError, InvalidEvent):
        return None
    return mark if isinstance(mark, dict) and _is_text(mark.get("run")) else None


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value) <= TEXT_LIMIT
