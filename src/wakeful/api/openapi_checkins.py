"""The part of the OpenAPI document about check-ins."""

from __future__ import annotations

from wakeful.http.schema import Json, answer, operator, problems, query, reference
from wakeful.intake.cloudevents import PLAIN, TEXT_LIMIT


def checkin_paths() -> Json:
    name = {"name": "name", "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
    identifier = {"type": "string", "minLength": 1, "maxLength": TEXT_LIMIT}
    checkin = {
        "operationId": "check_in",
        "summary": "Report that the expected task of this name was done",
        "description": "Creates an event of type wakeful.checkin, and answers after it is on disk.",
        "parameters": [
            name,
            query("id", identifier, "The event id (default: a new one); a repeated id is a duplicate"),
            operator(),
        ],
        "requestBody": {"required": False, "content": {PLAIN: {"schema": {"description": "The event's data"}}}},
        "responses": {
            "202": answer("The result for the event", reference("Receipts")),
            **problems("400", "401", "404", "413", "421", "503"),
        },
    }
    return {"/v1/checkins/{name}": {"post": checkin}}
