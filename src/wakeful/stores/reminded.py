"""Reminders as the JSON objects that the HTTP API and `--json` show. What became of one, the run that told it knows."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from pydantic_core import from_json

from wakeful.clock import to_text
from wakeful.model import FINAL_RUN_STATES, ReminderState
from wakeful.stores.base import Row

Fetch = Callable[..., Awaitable[list[Row]]]

# What a schedule's state is to a reminder; of those that are done, their run says more.
STORED: dict[ReminderState, str] = {"pending": "live", "paused": "paused", "cancelled": "removed"}
PAGE = 500


async def page_of_reminders(
    fetch: Fetch, *, app: str | None, state: ReminderState | None, most: int, before: int | None
) -> tuple[list[dict[str, Any]], int | None]:
    """The newest first, and the place after which there are more."""
    stored = None if state is None else STORED.get(state, "done")
    found: list[tuple[int, dict[str, Any]]] = []
    size = most + 1 if stored != "done" else PAGE
    while rows := await fetch("page_of_reminders", app, stored, before, size):
        found += [
            (row[0], shown) for row in rows if (shown := reminder_summary(row))["state"] == state or state is None
        ]
        before = rows[-1][0]
        if len(found) > most:
            return [shown for _, shown in found[:most]], found[most - 1][0]
        if len(rows) < size:
            break
    return [shown for _, shown in found], None


def reminder_summary(row: Row) -> dict[str, Any]:
    """A row of `page_of_reminders`."""
    (
        _,
        app,
        name,
        stored,
        definition,
        data,
        fired_at,
        created_at,
        changed_at,
        changed_by,
        run,
        run_state,
        output,
        error,
        run_reason,
        occurrence_reason,
    ) = row
    rule, memo = from_json(definition)["rule"], from_json(data or "{}")
    became = from_json(output) if output else {}
    trouble = from_json(error).get("message") if error else run_reason or occurrence_reason
    state = state_of(stored, run, run_state, became)
    return {
        "id": name,
        "app": app,
        "state": state,
        "text": memo.get("text"),
        "to": memo.get("to"),
        "unless": memo.get("unless"),
        "where": memo.get("where"),
        "due_at": to_text(rule["moment"]),
        "zone": rule["zone"],
        "made_at": to_text(created_at),
        "made_by": memo.get("by"),
        "changed_at": to_text(changed_at),
        "changed_by": changed_by,
        "told_at": to_text(fired_at) if state == "told" else None,
        "late": became.get("late"),
        "run": run,
        "reason": reason_of(state, changed_by, became, trouble),
    }


def state_of(stored: str, run: str | None, run_state: str | None, became: Any) -> ReminderState:
    match stored:
        case "live":
            return "pending"
        case "paused":
            return "paused"
        case "removed":
            return "cancelled"
    if run is None:
        return "failed"  # no run came of it: policy said no
    if run_state is None:
        return "over"  # and its run was removed when its retention time was over
    if run_state not in FINAL_RUN_STATES:
        return "telling"
    if run_state != "done":
        return "failed"
    return "told" if became.get("told") else "unneeded"


def reason_of(state: ReminderState, changed_by: str, became: Any, trouble: str | None) -> str | None:
    match state:
        case "unneeded":
            return str(became.get("because"))
        case "failed":
            return trouble
        case "cancelled":
            return f"cancelled by {changed_by}"
        case _:
            return None


def reminder_change(row: Row) -> dict[str, Any]:
    """A row of `changes_of_schedule`: who did what, and when it was to be told from then on."""
    _, verb, operator, note, definition, changed_at = row
    due = None if definition is None else to_text(from_json(definition)["rule"]["moment"])
    return {"verb": verb, "by": operator, "note": note, "due_at": due, "at": to_text(changed_at)}
