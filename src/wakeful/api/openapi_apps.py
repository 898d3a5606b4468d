"""The part of the OpenAPI document about apps."""

from __future__ import annotations

from wakeful.http.change import NOTE_LIMIT
from wakeful.http.schema import Json, answer, change, listing, object_of, problems, reference

TEXT: Json = {"type": ["string", "null"], "minLength": 1, "maxLength": NOTE_LIMIT}


def app_paths() -> Json:
    fields: Json = {
        "plan": {"type": "boolean", "default": False, "description": "Only say what would be closed"},
        "live": {"type": "boolean", "default": False, "description": "Although live workers serve it"},
        "note": {**TEXT, "description": "Why"},
    }
    found = {
        "operationId": "list_apps",
        "summary": "The apps that have to do with this store, and what waits in each",
        "responses": {"200": answer("The apps", listing("apps", reference("App"))), **problems("401", "421", "503")},
    }
    retire = change(
        "retire_app",
        "Close everything of an app that waits; nothing is deleted",
        fields,
        "Retirement",
        "404",
        "409",
        parameter="name",
    )
    return {"/v1/apps": {"get": found}, "/v1/apps/{name}/retire": retire}


def app_schemas() -> Json:
    text, nullable, whole = {"type": "string"}, {"type": ["string", "null"]}, {"type": "integer"}
    names: Json = {"type": "array", "items": text}
    counts: Json = {"type": "object", "additionalProperties": whole}
    by: Json = {"type": ["object", "null"], "properties": {"at": text, "by": text, "note": nullable}}
    app: Json = {
        "app": text,
        "state": {**text, "enum": ["alive", "down", "retired"]},
        "workers": whole,
        "agents": names,
        "schedules": whole,
        "runs": {**counts, "description": "Those that are not over or need a person, by state"},
        "alarms": whole,
        "retired": by,
    }
    retirement: Json = {
        "app": text,
        "workers": whole,
        "retired": {**by, "description": "Who retired it before, if anybody"},
        "schedules": names,
        "expectations": names,
        "runs": counts,
        "messages": whole,
        "alarms": names,
        "dead": {**whole, "description": "Dead letters, which stay"},
    }
    return {"App": object_of(app, *app), "Retirement": object_of(retirement, *retirement)}
