"""The part of the OpenAPI document about pauses."""

from __future__ import annotations

from wakeful.http.change import NOTE_LIMIT
from wakeful.http.schema import Json, answer, change, listing, object_of, problems, query, reference

TEXT: Json = {"type": ["string", "null"], "minLength": 1, "maxLength": NOTE_LIMIT}


def pause_paths() -> Json:
    which: Json = {
        "agent": {**TEXT, "description": "The agent"},
        "all": {"type": "boolean", "default": False, "description": "All agents of the app, instead of one"},
        "app": {**TEXT, "description": "Of which app, where it is not the one that this server runs"},
        "note": {**TEXT, "description": "Why"},
    }
    rate: Json = {"rate": {**TEXT, "description": "At first no faster than this, like 10/s"}}
    found = {
        "operationId": "list_pauses",
        "summary": "What is paused, or comes back at a rate",
        "parameters": [query("app", {"type": "string"}, "Only those of this app")],
        "responses": {
            "200": answer("The pauses", listing("pauses", reference("Pause"))),
            **problems("400", "401", "421", "503"),
        },
    }
    return {
        "/v1/pauses": {"get": found},
        "/v1/pause": change(
            "pause", "Claim nothing more of an agent; what runs finishes", which, "ChangedPause", "404"
        ),
        "/v1/resume": change("resume", "Let a paused agent go on", which | rate, "ChangedPause", "404"),
    }


def pause_schemas() -> Json:
    text, nullable, flag = {"type": "string"}, {"type": ["string", "null"]}, {"type": "boolean"}
    pause: Json = {
        "app": text,
        "agent": {**nullable, "description": "null: all of the app"},
        "paused": {**flag, "description": "false: it comes back, no faster than its rate"},
        "rate": nullable,
        "by": text,
        "note": nullable,
        "since": text,
    }
    changed: Json = {"app": text, "agent": nullable, "paused": flag, "was_paused": flag}
    return {"Pause": object_of(pause, *pause), "ChangedPause": object_of(changed, *changed)}
