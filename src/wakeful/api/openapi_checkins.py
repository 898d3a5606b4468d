"""The part of the OpenAPI document about check-ins."""

from __future__ import annotations

from wakeful.http.schema import Json, answer, operator, problems, query, reference
from wakeful.intake.cloudevents import PLAIN, TEXT_LIMIT


def checkin_paths() -> Json:
    name = {"name": "name", "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
    identifier = {"type": "string", "minLength": 1, "maxLength": TEXT_LIMIT}
    checkin = {
        "operationId": "check_in",
        "summary": "Say that something was done that is expected under this name",
        "description": "Makes an event of type wakeful.checkin, and answers after it is on disk.",
        "parameters": [
            name,
            query("id", identifier, "The same id again is a duplicate; default: a new one"),
            operator(),
        ],
        "requestBody": {"required": False, "content": {PLAIN: {"schema": {"description": "The event's data"}}}},
        "responses": {
            "202": answer("What became of the event", reference("Receipts")),
            **problems("400", "401", "404", "413", "421", "503"),
        },
    }
    return {"/v1/checkins/{name}": {"post": checkin}}
