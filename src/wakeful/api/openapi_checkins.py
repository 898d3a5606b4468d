"""The part of the OpenAPI document about expectations and check-ins."""

from __future__ import annotations

from wakeful.api.schema import Json, answer, listing, object_of, one_of, problems, query, reference
from wakeful.intake.cloudevents import PLAIN, TEXT_LIMIT
from wakeful.watch.absence import KINDS


def checkin_paths() -> Json:
    name = {"name": "name", "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
    identifier = {"type": "string", "minLength": 1, "maxLength": TEXT_LIMIT}
    checkin = {
        "operationId": "check_in",
        "summary": "Say that something was done that is expected under this name",
        "description": "Makes an event of type wakeful.checkin, and answers after it is on disk.",
        "parameters": [name, query("id", identifier, "The same id again is a duplicate; default: a new one")],
        "requestBody": {"required": False, "content": {PLAIN: {"schema": {"description": "The event's data"}}}},
        "responses": {
            "202": answer("What became of the event", reference("Receipts")),
            **problems("400", "401", "404", "413", "421", "503"),
        },
    }
    expectations = {
        "operationId": "list_expectations",
        "summary": "What is expected, and how it stands",
        "parameters": [query("app", {"type": "string"}, "Only those of this app")],
        "responses": {
            "200": answer("The expectations", listing("expectations", reference("Expectation"))),
            **problems("400", "401", "421", "503"),
        },
    }
    return {"/v1/checkins/{name}": {"post": checkin}, "/v1/expectations": {"get": expectations}}


def checkin_schemas() -> Json:
    text, nullable = {"type": "string"}, {"type": ["string", "null"]}
    expectation: Json = {
        "app": text,
        "name": text,
        "kind": one_of(("schedule", "by", "every", "output")),
        "what": {**text, "description": "What should happen, in words"},
        "agent": nullable,
        "owner": {**nullable, "description": "Who hears of it"},
        "state": one_of(("met", "pending", "absent", "excused")),
        "absence": {"enum": [*KINDS, None], "description": "Absent: how it failed to happen"},
        "reason": text,
        "met_at": {**nullable, "description": "When it was last met"},
        "due_at": {**nullable, "description": "When it would be overdue"},
    }
    return {"Expectation": object_of(expectation, *expectation)}
