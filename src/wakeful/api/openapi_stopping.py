"""The part of the OpenAPI document about cancelling and forking."""

from __future__ import annotations

from wakeful.http.change import NOTE_LIMIT
from wakeful.http.schema import Json, change, object_of


def stopping_paths() -> Json:
    text = {"type": ["string", "null"], "minLength": 1, "maxLength": NOTE_LIMIT}
    note = {"note": {**text, "description": "Why"}}
    kept: Json = {
        "from": {"type": "string", "minLength": 1, "description": "The first step that is done anew, like fetch#2"},
        "data": {"description": "Handed to the handler instead of the event's own data"},
        "steps": {"type": "object", "description": "Results of kept steps to use instead, by their names"},
    }
    return {
        "/v1/runs/{id}/cancel": change(
            "cancel_run",
            "Let a run stop at its next step, and undo what it did",
            note,
            "CancelledRun",
            "404",
            "409",
            parameter="id",
        ),
        "/v1/runs/{id}/fork": change(
            "fork_run",
            "Do a run again from a step on, keeping what was finished before",
            kept | note,
            "ForkedRun",
            "404",
            "409",
            "422",
            parameter="id",
        ),
    }


def stopping_schemas() -> Json:
    text = {"type": "string"}
    return {
        "CancelledRun": object_of({"run": text, "was": text, "state": text}, "run", "was", "state"),
        "ForkedRun": object_of(
            {"run": text, "was": text, "kept": {"type": "array", "items": text}}, "run", "was", "kept"
        ),
    }
