"""Reading all that a store has of a kind, for tests: every page, in the order in which it came."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, cast

from wakeful.errors import ConfigError, NotFound, did_you_mean
from wakeful.model import Receipt
from wakeful.resources.declare import Page
from wakeful.resources.desk import Desk
from wakeful.resources.events import events
from wakeful.resources.parameters import LONGEST_PAGE
from wakeful.resources.run_reading import find_run
from wakeful.resources.runs import runs

Which = Receipt | str | Mapping[str, Any]


def identify(which: Which) -> str:
    """The id of a run: of itself, or of the one run that an event started."""
    if isinstance(which, Mapping):
        return str(which["id"])
    if isinstance(which, str):
        return which
    if len(which.runs) != 1:
        shown = ", ".join(which.runs) or "none"
        message = f"event {which.id} ({which.status}) has not one run but {len(which.runs)}: {shown}"
        raise NotFound(message)
    return which.runs[0]


def refuse_unknown_state(what: str, state: str | None, known: Iterable[str]) -> None:
    if state is not None and state not in known:
        message = f'world.{what}(state="{state}"): there is no such state.{did_you_mean(state, known)}'
        raise ConfigError(message)


def output_of(run: Mapping[str, Any]) -> Any:
    """What a run returned. AssertionError if it is not done, with the reason."""
    if run["state"] != "done":
        error = run["error"] or {}
        words = f" {error.get('type')}: {error.get('message')}" if error else ""
        due = f", due at {run['due_at']}" if run["due_at"] else ""
        message = f"run {run['id']} of {run['agent']} is {run['state']} ({run['reason']}{due}), not done.{words}"
        raise AssertionError(message)
    return run["output"]


async def read_runs(desk: Desk, **which: Any) -> list[dict[str, Any]]:
    """All runs of a store, each with everything about it, in the order in which they were made."""
    found = [await find_run(desk, run["id"]) for run in await oldest_first(desk, runs, **which)]
    return [cast("dict[str, Any]", run) for run in found if run is not None]


async def read_events(desk: Desk) -> list[dict[str, Any]]:
    """All events of a store, in the order in which they came."""
    return await oldest_first(desk, events)


async def oldest_first(desk: Desk, read: Callable[..., Awaitable[Page[Any]]], **which: Any) -> list[dict[str, Any]]:
    """All items of a listing that begins with the newest."""
    page = await read(desk, **which, limit=LONGEST_PAGE)
    found = page.items
    while page.next is not None:
        page = await read(desk, **which, limit=LONGEST_PAGE, after=page.next)
        found += page.items
    return found[::-1]
