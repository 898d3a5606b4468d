"""The part of the OpenAPI document about starting runs and waiting for their outputs."""

from __future__ import annotations

from wakeful.http.schema import Json, answer, listing, object_of, one_of, operator, problems, query, reference
from wakeful.intake.cloudevents import PLAIN, TEXT_LIMIT


def wait_parameter() -> Json:
    text = {"type": "string", "pattern": r"^[0-9]+(ms|s|m)$", "examples": ["10s"]}
    return query("wait", text, "Answer when the runs are finished, or after this time, at most 60s")


def agent_paths() -> Json:
    name = {"name": "agent", "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
    identifier = {"type": "string", "minLength": 1, "maxLength": TEXT_LIMIT}
    start = {
        "operationId": "start_run",
        "summary": "Run an agent now, regardless of its triggers",
        "description": "Creates an event of type wakeful.run for this agent only, and answers after it is on disk.",
        "parameters": [
            name,
            query("id", identifier, "The event id (default: a new one); a repeated id refers to the same run"),
            wait_parameter(),
            operator(),
        ],
        "requestBody": {"required": False, "content": {PLAIN: {"schema": {"description": "The run's data"}}}},
        "responses": {
            "200": answer("The run is finished", reference("Results")),
            "202": answer("The result for the event", reference("Receipts")),
            **problems("400", "401", "404", "413", "415", "421", "503"),
        },
    }
    return {"/v1/agents/{agent}/runs": {"post": start}}


def waiting_schemas(receipt: Json) -> Json:
    failed = object_of(
        {
            "state": one_of(("dead", "denied", "cancelled")),
            "reason": {"type": ["string", "null"]},
            "error": {"type": ["object", "null"], "description": "type and message"},
        },
        "state",
        "reason",
        "error",
    )
    outputs = {"type": "object", "description": "The output of each run that is done, by its id"}
    others = {
        "type": "object",
        "additionalProperties": failed,
        "description": "Runs that are dead, denied or cancelled, by their ids; absent if there are none",
    }
    result = receipt | {"outputs": outputs, "failed": others}
    return {"Results": listing("events", object_of(result, "source", "id", "status", "runs", "outputs"))}
