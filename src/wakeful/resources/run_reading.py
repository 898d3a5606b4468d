"""Reading runs: a page of a listing, one run in detail, and many in detail for an archive."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, cast

from pydantic_core import from_json
from typing_extensions import TypedDict

from wakeful.clock import Microseconds, to_text
from wakeful.model import RunState
from wakeful.resources.declare import Page
from wakeful.resources.deliveries import Delivery
from wakeful.resources.desk import Desk, views
from wakeful.resources.effects import Effect
from wakeful.resources.events import Decision
from wakeful.resources.parameters import LONGEST_PAGE
from wakeful.resources.run_steps import began_with, change_of, step_of
from wakeful.resources.run_views import AttemptOfRun, Called, Remedy, Run, RunDetail
from wakeful.stores.awaited_version import awaited_version
from wakeful.stores.chains import chain_summary
from wakeful.stores.reads import LAST_CHARACTER, SHORTEST_PREFIX, cursor_of, json_of, next_of, several
from wakeful.stores.run_filters import RunFilter, runs_between
from wakeful.stores.shown_errors import shown_error
from wakeful.stores.transaction import Row
from wakeful.triggers.occurrences import scheduled_summary

SLICE = 20  # runs assembled before the event loop gets a turn


class RunRow(TypedDict):
    """The columns of every listing of runs."""

    seq: int
    id: str
    agent: str
    state: RunState
    attempts: int
    crashes: int
    reason: str | None
    created_at: Microseconds
    started_at: Microseconds | None
    finished_at: Microseconds | None
    due_at: Microseconds | None
    app: str
    event_source: str
    event_id: str
    event_type: str


class WholeRow(RunRow):
    """The columns of `find_runs`."""

    root: str
    event_key: str
    output: str | None
    error: str | None
    outcome: str | None
    owner: str | None
    token: int
    expires_at: Microseconds | None
    envelope: str
    event_seq: int
    cancel_at: Microseconds | None
    cancel_by: str | None
    cancel_note: str | None
    version: str | None
    data: str | None
    parked_for: str | None


# The queries for the other parts of a run, each with the column of the run's row that is its parameter.
PARTS = {
    "list_steps": "seq",
    "list_attempts": "seq",
    "list_decisions": "event_seq",
    "list_remedies": "seq",
    "list_deliveries": "root",
    "flow_of_run": "seq",
    "list_members": "seq",
    "misfits_of_run": "seq",
    "list_effects": "root",
    "parent_of_run": "seq",
    "children_of_run": "seq",
}
Parts = Mapping[str, list[Row]]


async def page_of_runs(desk: Desk, wanted: RunFilter, *, limit: int = 50, after: str | None = None) -> Page[Run]:
    """A page of runs, newest first. Raises ValueError for an invalid cursor."""
    most, cursor = min(limit, LONGEST_PAGE), cursor_of(after)
    least, before = await runs_between(desk.reads.fetch, wanted.since, wanted.until)
    name, parameters = wanted.query(least, before if cursor is None else min(before, cursor), most + 1)
    rows = await desk.reads.fetch(name, *parameters)
    return Page([run_of(one) for one in views(RunRow, rows[:most])], next_of(rows, most))


async def find_run(desk: Desk, identifier: str) -> RunDetail | None:
    """One run in detail, by its id or a prefix of it. Raises NotFound if several ids match."""
    row = await row_of(desk, identifier)
    return None if row is None else await _whole(desk, row, (await _parts(desk, [row]))[0])


async def whole_runs(desk: Desk, identifiers: Sequence[str]) -> list[RunDetail | None]:
    """Many runs in detail, by their ids, in a few queries: each as `find_run` returns it, or None."""
    found = await desk.reads.fetch_each("find_runs", [(one, one + "\x01") for one in identifiers])
    rows = [
        next((row for row in views(WholeRow, some) if row["id"] == identifier), None)
        for identifier, some in zip(identifiers, found, strict=True)
    ]
    parts = iter(await _parts(desk, [row for row in rows if row is not None]))
    whole = []
    for number, row in enumerate(rows, start=1):
        whole.append(None if row is None else await _whole(desk, row, next(parts)))
        if number % SLICE == 0:
            await asyncio.sleep(0)  # let other tasks run
    return whole


async def row_of(desk: Desk, identifier: str) -> WholeRow | None:
    """A run's row by its id or a prefix: `3f2a91` is the first run of its family, `3f2a91.2` the result of the second `--again`."""
    found = await _row_of_id(desk, identifier)
    beginning, dot, generation = identifier.partition(".")
    if found is not None or len(beginning) < SHORTEST_PREFIX:
        return found
    roots = await desk.reads.fetch("find_roots", beginning, beginning + LAST_CHARACTER)
    if len(roots) > 1:
        raise several(identifier, "run", [f"{one} ({agent}, {state})" for one, agent, state in roots])
    return await _row_of_id(desk, f"{roots[0][0]}{dot}{generation}") if roots else None


async def _row_of_id(desk: Desk, identifier: str) -> WholeRow | None:
    rows = await desk.reads.rows(WholeRow, "find_runs", identifier, identifier + "\x01")
    return next((row for row in rows if row["id"] == identifier), None)


async def _parts(desk: Desk, rows: Sequence[WholeRow]) -> list[Parts]:
    """The rows of each query of PARTS, for each run."""
    parts: list[dict[str, list[Row]]] = [{} for _ in rows]
    for query, column in PARTS.items():
        named = [(cast("dict[str, Any]", row)[column],) for row in rows]
        for part, found in zip(parts, await desk.reads.fetch_each(query, named), strict=True):
            part[query] = found
    return cast("list[Parts]", parts)


async def _whole(desk: Desk, row: WholeRow, parts: Parts) -> RunDetail:
    summary = run_of(row)
    event, carried, data = summary["event"], from_json(row["envelope"]), row["data"]
    steps, deliveries = parts["list_steps"], views(Delivery, parts["list_deliveries"])
    misfits = {key: noted for key, *noted in parts["misfits_of_run"]}
    members = [
        {"source": source, "id": identifier, "type": kind, "key": key, "data": from_json(envelope).get("data")}
        for source, identifier, kind, key, envelope in parts["list_members"]
    ]
    whole = {
        **summary,
        "root": row["root"],
        "chain": chain_summary(row["app"], carried),
        "scheduled": scheduled_summary(row["app"], row["event_source"], carried, row["started_at"]),
        "parent": next((str(one[0]) for one in parts["parent_of_run"]), None),
        "children": views(Called, parts["children_of_run"]),
        "event": {**event, "key": row["event_key"], "data": carried.get("data")},
        "events": members or [{**event, "key": row["event_key"]}],
        **_flow(parts["flow_of_run"][0]),
        "edited": None if data is None else {"data": from_json(data)},
        "owner": row["owner"],
        "parked_for": row["parked_for"],
        "token": row["token"],
        "expires_at": to_text(row["expires_at"]),
        "version": began_with(row["version"], steps),
        "cancel": None
        if row["cancel_at"] is None
        else {"by": row["cancel_by"], "note": row["cancel_note"], "asked_at": to_text(row["cancel_at"])},
        "change": change_of(steps),
        "awaits_code": await _awaited_code(desk, row),
        "steps": [step_of(step, misfits.get(step[9])) for step in steps if step[1] != "fact"],
        "history": views(AttemptOfRun, parts["list_attempts"]),
        "remedies": views(Remedy, parts["list_remedies"]),
        "effects": views(Effect, parts["list_effects"]),
        "decisions": [one for one in views(Decision, parts["list_decisions"]) if one["agent"] == row["agent"]],
        "deliveries": deliveries,
        "output": json_of(row["output"]),
        "error": shown_error(row["error"]),
        "outdated": row["state"] == "held" and await _is_outdated(desk, row["seq"]),
        "outcome": _with_delivery(json_of(row["outcome"]), [one for one in deliveries if one["run"] == row["id"]]),
    }
    return cast("RunDetail", whole)


def run_of(row: RunRow) -> Run:
    """A run as listings show it."""
    state = row["state"]
    return Run(
        id=row["id"],
        agent=row["agent"],
        state=state,
        # tries of the handler: the failed ones, plus the one that is running, succeeded or was denied
        attempts=row["attempts"] + (state in {"running", "done", "denied"}),
        crashes=row["crashes"],
        reason=row["reason"],
        event={"source": row["event_source"], "id": row["event_id"], "type": row["event_type"]},
        created_at=to_text(row["created_at"]) or "",
        started_at=to_text(row["started_at"]),
        finished_at=to_text(row["finished_at"]),
        due_at=to_text(row["due_at"]) if state in {"ready", "waiting"} else None,
        app=row["app"],
    )


def _flow(row: Row) -> dict[str, Any]:
    """A run's place among the runs of its key: runs ahead of it, and runs that wait behind a dead letter."""
    key, priority, _, until, _, ahead, first, first_state, behind = row
    return {
        "key": key or None,
        "priority": priority,
        "gathers_until": to_text(until),
        "ahead": {"count": ahead, "run": first, "state": first_state} if ahead else None,
        "behind": behind,
    }


def _with_delivery(outcome: dict[str, Any] | None, deliveries: Sequence[Delivery]) -> dict[str, Any] | None:
    """The outcome with the state of its deliveries. Deliveries arrive after the run is over, so their state is not stored with it."""
    if outcome is None:
        return None
    states = {one["state"] for one in deliveries} - {"held", "discarded"}
    unsettled = states & {"pending", "unknown"}
    word = "failed" if "dead" in states else "pending" if unsettled else "delivered" if states else "none"
    return {**outcome, "delivery": word}


async def _awaited_code(desk: Desk, row: WholeRow) -> Any:
    """The code version that a run may have to wait for; else None."""
    if row["state"] not in {"ready", "waiting"} or row["version"] is None:
        return None
    known = await desk.reads.fetch("versions_of_agent", row["app"], row["agent"])
    serving = await desk.reads.fetch("versions_at_work", row["app"]) if len(known) > 1 else []
    return awaited_version(row["version"], row["agent"], known, serving)


async def _is_outdated(desk: Desk, seq: int) -> bool:
    """Whether releasing a held output would overwrite a state that has changed since."""
    rows = await desk.reads.fetch("state_of_held", seq)
    return any(from_json(change)["version"] != version for change, version in rows)
