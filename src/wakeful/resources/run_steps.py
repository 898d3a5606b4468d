"""The steps of a run, and the code changes recorded among them."""

from __future__ import annotations

from typing import Any

from pydantic_core import from_json

from wakeful.clock import to_text
from wakeful.execution.deadline import is_about_approval
from wakeful.stores.reads import json_of, shown
from wakeful.stores.shown_errors import shown_error
from wakeful.stores.transaction import Row


def step_of(row: Row, misfit: Row | None = None) -> dict[str, Any]:
    """A step as a run shows it. `misfit` is (event id, reason) of an event that its condition could not be evaluated for."""
    name, state, tries, attempt, arguments, result, error, started, finished, key = row
    return {
        "name": name,
        "state": state,
        "tries": tries,
        "attempt": attempt,
        "arguments": shown(arguments),
        "result": result_of(key, result) if state == "done" else None,
        "error": shown_error(error) if state != "done" else None,
        "failures": (json_of(error) or {}).get("tries", []),
        "started_at": to_text(started),
        "finished_at": to_text(finished),
        "duration": (finished - started) / 1_000_000,
        "due_at": to_text(until_of(state, result)),
        "waits_for": awaited(result, misfit) if state == "waiting" else None,
        "key": key,
    }


def result_of(key: str, result: str | None) -> Any:
    """The result of a step. Edited arguments, which no worker has looked at yet, are a yes: they may have values that the policy redacts."""
    given = json_of(result)
    return True if is_about_approval(key) and isinstance(given, dict) else given


def awaited(result: str | None, misfit: Row | None) -> Any:
    """What a waiting step waits for."""
    told = json_of(result)
    if misfit is not None:
        told["misfit"] = {"event": misfit[0], "reason": misfit[1]}
    return told


def until_of(state: str, result: str | None) -> int | None:
    """When a step resumes. None also for a tampered record, so that its run can still be shown."""
    if state not in {"retrying", "waiting"}:
        return None
    told = json_of(result)
    until = told.get("until") if isinstance(told, dict) else told
    return until if isinstance(until, int) else None


def change_of(steps: list[Row]) -> dict[str, Any] | None:
    """The code changes during a run, with the last one at the top level; None if there was none."""
    notes = {step[9]: from_json(step[5]) for step in steps if step[1] == "fact" and step[9] == "not asked for"}
    changes = changes_of(steps)
    if not notes and not changes:
        return None
    either = {**(changes[-1] if changes else {}), **notes.get("not asked for", {})}
    return {
        "was": either["was"],
        "now": either["now"],
        "restarted": either.get("restarted", False),
        "not_asked_for": either.get("steps", []),
        "changes": changes,
    }


def changes_of(steps: list[Row]) -> list[dict[str, Any]]:
    """Each code change during a run, in order."""
    found = [
        (int(step[9].removeprefix("version") or 1), from_json(step[5]), step[7])
        for step in steps
        if step[1] == "fact" and (step[9] == "version" or step[9].startswith("version "))
    ]
    return [
        {
            "was": told["was"],
            "now": told["now"],
            "restarted": told["restarted"],
            "agreed": told.get("agreed", True),
            "at": to_text(moment),
        }
        for _, told, moment in sorted(found, key=lambda one: one[0])
    ]


def began_with(version: str | None, steps: list[Row]) -> str | None:
    """The code version that a run's records follow: that of its first start, unless the run was restarted or an operator accepted
    newer code.
    """
    changes = changes_of(steps)
    if version is None or not changes:
        return None if version is None else version.lstrip("~")
    began: str = changes[0]["was"]
    for change in changes:
        if change["restarted"] or change["agreed"]:
            began = change["now"]
    return began
