"""The part of the OpenAPI document about circuits."""

from __future__ import annotations

from typing import get_args

from wakeful.api.schema import Json, answer, listing, object_of, one_of, problems, query, reference
from wakeful.model import CircuitState


def circuit_paths() -> Json:
    found = {
        "operationId": "list_circuits",
        "summary": "Dependencies that are, or were, down",
        "parameters": [query("app", {"type": "string"}, "Only those of this app")],
        "responses": {
            "200": answer("The circuits", listing("circuits", reference("Circuit"))),
            **problems("400", "401", "421", "503"),
        },
    }
    return {"/v1/circuits": {"get": found}}


def circuit_schemas() -> Json:
    text, count, nullable = {"type": "string"}, {"type": "integer", "minimum": 0}, {"type": ["string", "null"]}
    circuit: Json = {
        "app": text,
        "name": text,
        "state": one_of(get_args(CircuitState)),
        "failures": {**count, "description": "In a row"},
        "error": {**nullable, "description": "The last one"},
        "rest": {"type": "number", "description": "Seconds until the next probe, when it opens"},
        "next_at": {**nullable, "description": "Open: when one run tries. Recovering: when the next ones come back"},
        "came_back": {**count, "description": "Recovering: how many came back the last time"},
        "changed_at": nullable,
        "probe": {**nullable, "description": "The run that tries now"},
        "parked": {**count, "description": "Runs that wait for it"},
        "opened_at": {**nullable, "description": "Since when it is not closed"},
        "waiting": {**count, "description": "Of a channel, channel:NAME: messages that wait for it"},
    }
    return {"Circuit": object_of(circuit, *circuit)}
