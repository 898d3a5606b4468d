"""The part of the OpenAPI document about sending events."""

from __future__ import annotations

from typing import Any

from wakeful.api.events import IDEMPOTENCY_KEY_LIMIT
from wakeful.api.openapi_waiting import wait_parameter
from wakeful.http.schema import Json, answer, operation, problems, reference
from wakeful.intake.cloudevents import BATCH, BATCH_LIMIT, EXTENSION_NAME_LIMIT, PLAIN, STRUCTURED, TEXT_LIMIT
from wakeful.surface.examples import MOMENT, RUN

TICKET: dict[str, Any] = {
    "id": "t1",
    "source": "/desk/tickets",
    "type": "ticket.created",
    "subject": "8841",
    "time": MOMENT,
    "data": {"ticket": 8841, "severity": 3},
}
RECEIPT = {"source": "/desk/tickets", "id": "t1", "status": "accepted", "runs": [RUN]}


def event_paths() -> Json:
    event = {"specversion": "1.0", **TICKET}
    results = {"events": [{**RECEIPT, "outputs": {RUN: {"text": "Thank you"}}}]}
    send = operation(
        "accept_events",
        "events",
        "Send events",
        {
            "200": answer("With wait: all runs are finished", reference("Results"), example=results),
            "202": answer("The result for each event", reference("Receipts"), example={"events": [RECEIPT]}),
            **problems("400", "401", "413", "415", "421", "422", "503"),
        },
        description=(
            "Answers after the events are on disk. A batch is accepted completely or not at all. A repeated event is a "
            "duplicate and starts nothing. Binary mode: attributes in ce- headers, data as the body."
        ),
        parameters=[_idempotency_key(), wait_parameter()],
        requestBody={
            "required": True,
            "content": {
                STRUCTURED: {"schema": reference("Event"), "example": event},
                BATCH: {"schema": _batch_of("Event"), "example": [event]},
                PLAIN: {"schema": {"oneOf": [reference("PlainEvent"), _batch_of("PlainEvent")]}, "example": TICKET},
            },
        },
    )
    return {"/v1/events": {"post": send}}


def event_schemas() -> Json:
    text = {"type": "string", "minLength": 1, "maxLength": TEXT_LIMIT, "pattern": "^[^\\u0000]+$"}
    moment = {"type": "string", "format": "date-time"}
    attributes: Json = {
        "id": text,
        "source": {**text, "description": "Source and id together identify an event"},
        "type": text,
        "specversion": {"const": "1.0"},
        "subject": text,
        "time": moment,
        "expirytime": {**moment, "description": "After this time the event starts nothing"},
        "datacontenttype": text,
        "dataschema": text,
        "traceparent": text,
        "correlationid": text,
        "causationid": text,
        "data": {"description": "Any JSON: integers of 64 bits, no NUL characters, at most 100 levels"},
        "data_base64": {"type": "string", "contentEncoding": "base64"},
    }
    names = "|".join(attributes)
    event: Json = {
        "type": "object",
        "properties": attributes,
        "propertyNames": {"pattern": f"^(?:{names}|[a-z0-9]{{1,{EXTENSION_NAME_LIMIT}}})$"},
        "additionalProperties": {
            "type": ["string", "boolean", "integer", "null"],
            "description": "An extension attribute",
        },
        "not": {"required": ["data", "data_base64"]},
    }
    return {
        "Event": {**event, "required": ["specversion", "id", "source", "type"]},
        "PlainEvent": {**event, "required": ["id", "source", "type"]},
    }


def _batch_of(name: str) -> Json:
    return {"type": "array", "items": reference(name), "minItems": 1, "maxItems": BATCH_LIMIT}


def _idempotency_key() -> Json:
    return {
        "name": "Idempotency-Key",
        "in": "header",
        "required": False,
        "description": "A repeated request with the same key gets the same answer",
        "schema": {"type": "string", "minLength": 1, "maxLength": IDEMPOTENCY_KEY_LIMIT, "pattern": "^[!-~]+$"},
    }
