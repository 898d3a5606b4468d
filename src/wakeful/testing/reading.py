"""Reads everything of a kind from a store, for tests: all pages, oldest first."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from wakeful.errors import ConfigError, NotFound, did_you_mean
from wakeful.model import Receipt
from wakeful.reader import Reader
from wakeful.resources.parameters import LONGEST_PAGE

Which = Receipt | str | Mapping[str, Any]


def identify(which: Which) -> str:
    """The id of a run, given the run, its id, or the receipt of an event that started one run."""
    if isinstance(which, Mapping):
        return str(which["id"])
    if isinstance(which, str):
        return which
    if len(which.runs) != 1:
        shown = ", ".join(which.runs) or "none"
        message = f"event {which.id} ({which.status}) must have one run, but has {len(which.runs)}: {shown}"
        raise NotFound(message)
    return which.runs[0]


def refuse_unknown_state(what: str, state: str | None, known: Iterable[str]) -> None:
    if state is not None and state not in known:
        message = f'world.{what}(state="{state}"): unknown state.{did_you_mean(state, known)}'
        raise ConfigError(message)


def output_of(run: Mapping[str, Any]) -> Any:
    """The output of a run. Raises AssertionError with the reason if the run is not done."""
    if run["state"] != "done":
        error = run["error"] or {}
        words = f" {error.get('type')}: {error.get('message')}" if error else ""
        due = f", due at {run['due_at']}" if run["due_at"] else ""
        message = f"run {run['id']} of {run['agent']} is {run['state']} ({run['reason']}{due}), not done.{words}"
        raise AssertionError(message)
    return run["output"]


async def read_runs(reader: Reader, **which: Any) -> list[dict[str, Any]]:
    """All runs of a store with all their details, in order of creation."""
    found = await every_page(reader.runs, **which)
    runs = [await reader.run(run["id"]) for run in reversed(found["runs"])]
    return [run for run in runs if run is not None]


async def read_events(reader: Reader) -> list[dict[str, Any]]:
    """All events of a store, in the order in which they came."""
    found = await every_page(reader.events)
    return list(reversed(found["events"]))


async def every_page(read: Callable[..., Awaitable[dict[str, Any]]], **which: Any) -> dict[str, list[dict[str, Any]]]:
    """The lists of all pages, concatenated."""
    whole: dict[str, list[dict[str, Any]]] = {}
    after = None
    while True:
        found = await read(**which, limit=LONGEST_PAGE, after=after)
        after = found.pop("next")
        for name, rows in found.items():
            whole.setdefault(name, []).extend(rows)
        if after is None:
            return whole
