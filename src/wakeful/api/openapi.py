"""The OpenAPI 3.1 document of the API, at /v1/openapi.json. Written by hand, and held to the routes by the tests."""

from __future__ import annotations

from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from wakeful.api.events import IDEMPOTENCY_KEY_LIMIT
from wakeful.api.openapi_checkins import checkin_paths
from wakeful.api.openapi_waiting import agent_paths, wait_parameter, waiting_schemas
from wakeful.api.openapi_webhooks import webhook_paths
from wakeful.api.ports import Webhooks
from wakeful.http.problem import MEDIA_TYPE
from wakeful.http.reply import JsonResponse
from wakeful.http.schema import Json, answer, listing, object_of, one, one_of, problems, query, reference
from wakeful.intake.cloudevents import BATCH, BATCH_LIMIT, EXTENSION_NAME_LIMIT, PLAIN, STRUCTURED, TEXT_LIMIT
from wakeful.model import EVENT_STATES
from wakeful.resources import all_resources
from wakeful.surface.openapi import resource_paths, resource_schemas


def openapi_routes(webhooks: Webhooks | None = None) -> list[Route]:
    async def show(_: Request) -> Response:
        whole = document()
        if webhooks is not None:
            whole = {**whole, "paths": {**whole["paths"], **webhook_paths(webhooks.endpoints.values())}}
        return JsonResponse(whole)

    return [Route("/v1/openapi.json", show, name="openapi")]


@lru_cache(maxsize=1)
def document() -> Json:
    """The whole document."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Wakeful",
            "version": _version(),
            "description": "Events in; runs, events, effects, deliveries, states, alarms and their stories out; what failed is redone. Errors are problem+json (RFC 9457).",
        },
        "servers": [{"url": "/"}],
        "security": [{}, {"token": []}],
        "paths": _guarded(_merged(_paths(), resource_paths(all_resources()))),
        "components": {
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": "WAKEFUL_TOKEN, where one is set"}
            },
            "schemas": _schemas(),
            "responses": _responses(),
        },
    }


def _version() -> str:
    try:
        return version("wakeful")
    except PackageNotFoundError:  # run from a checkout that was never installed
        return "0"


def _paths() -> Json:
    return {
        "/v1/events": {
            "post": {
                "operationId": "accept_events",
                "summary": "Take in events",
                "description": (
                    "Answers after the events are on disk. A batch is taken whole or not at all. The same event again is a "
                    "duplicate and starts nothing. Binary mode: the attributes in ce- headers, the data as the body."
                ),
                "parameters": [_idempotency_key(), wait_parameter()],
                "requestBody": {
                    "required": True,
                    "content": {
                        STRUCTURED: {"schema": reference("Event")},
                        BATCH: {"schema": _batch_of("Event")},
                        PLAIN: {"schema": {"oneOf": [reference("PlainEvent"), _batch_of("PlainEvent")]}},
                    },
                },
                "responses": {
                    "200": answer("With wait: every run is over", reference("Results")),
                    "202": answer("What became of each event", reference("Receipts")),
                    **problems("400", "401", "413", "415", "421", "422", "503"),
                },
            }
        },
        "/v1/why": {
            "get": {
                "operationId": "why_by_query",
                "summary": "The whole story of an event, a run, a delivery or a schedule, by an id that no path can carry",
                "parameters": [
                    {
                        **query("id", {"type": "string", "minLength": 1}, "Id of an event, a run or a delivery"),
                        "required": True,
                    }
                ],
                "responses": {
                    "200": answer("The story", reference("Story")),
                    **problems("400", "401", "404", "421", "503"),
                },
            }
        },
        "/v1/why/{identifier}": one(
            "why",
            "The whole story of an event, a run, an effect, a delivery, an alarm, a schedule or a reminder",
            "identifier",
            "Story",
        ),
        **agent_paths(),
        **checkin_paths(),
        "/v1/openapi.json": {
            "get": {
                "operationId": "openapi",
                "summary": "This document",
                "responses": {"200": answer("OpenAPI 3.1", {"type": "object"}), **problems("401", "421")},
            }
        },
        "/healthz": {
            "get": {
                "operationId": "healthz",
                "summary": "Does the process live?",
                "security": [{}],
                "responses": {"200": answer("It lives", reference("Health")), **problems("421")},
            }
        },
        "/readyz": {
            "get": {
                "operationId": "readyz",
                "summary": "Does the store answer, and is its schema right?",
                "security": [{}, {"token": []}],
                "description": "Callers with the token are told about each part, others only the status.",
                "responses": {
                    "200": answer("Ready", reference("Health")),
                    "503": answer("Not ready, and which part is not", reference("Health")),
                    **problems("421"),
                },
            }
        },
    }


def _merged(paths: Json, others: Json) -> Json:
    """Paths that are written by hand, and those of resources; one path may have methods of both."""
    return paths | {path: paths.get(path, {}) | methods for path, methods in others.items()}


def _guarded(paths: Json) -> Json:
    """What the guard before all paths may answer, added to what each of them answers itself."""
    for methods in paths.values():
        for method, operation in methods.items():
            also = ["403"] + (["429"] if "401" in operation["responses"] else [])
            also += [] if method == "get" else ["415"]
            operation["responses"] = {**problems(*also), **operation["responses"]}
    return paths


def _schemas() -> Json:
    text = {"type": "string", "minLength": 1, "maxLength": TEXT_LIMIT, "pattern": "^[^\\u0000]+$"}
    moment = {"type": "string", "format": "date-time"}
    attributes: Json = {
        "id": text,
        "source": {**text, "description": "Together with the id this is the identity of an event"},
        "type": text,
        "specversion": {"const": "1.0"},
        "subject": text,
        "time": moment,
        "expirytime": {**moment, "description": "After this the event starts nothing"},
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
    receipt: Json = {
        "source": {"type": "string"},
        "id": {"type": "string"},
        "status": one_of(EVENT_STATES),
        "runs": {"type": "array", "items": {"type": "string"}},
        "conflict": {"const": True, "description": "There when the same event was seen before with other content"},
        "skipped": {
            "type": "object",
            "additionalProperties": {"type": "string"},
            "description": "Agents without a run of it, because an earlier one was not over, and why",
        },
    }
    problem: Json = {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "field": {"type": "string", "description": "What is wrong: an attribute, a header, a parameter"},
        "index": {"type": "integer", "description": "Which event of a batch"},
    }
    return {
        "Event": {**event, "required": ["specversion", "id", "source", "type"]},
        "PlainEvent": {**event, "required": ["id", "source", "type"]},
        "Receipts": listing("events", object_of(receipt, "source", "id", "status", "runs")),
        **waiting_schemas(receipt),
        **resource_schemas(all_resources()),
        "Story": {"type": "object"},
        "Health": object_of(
            {
                "status": {"type": "string"},
                "note": {
                    "type": "string",
                    "description": "Ready, but unusual: the schema is ahead and compatible, say",
                },
                "parts": {"type": "object"},
            },
            "status",
        ),
        "Problem": object_of(problem, "type", "title", "status", "detail"),
    }


def _responses() -> Json:
    """The ways in which a request is refused; each is the same shape, problem+json."""
    words = {
        "400": "Something in it is wrong: field says what, index which event of a batch",
        "401": "The token is missing or wrong",
        "403": "This server has no token, and changing things, or asking from elsewhere, needs one; or a foreign page asks",
        "404": "There is nothing of that name",
        "409": "It is not in a state for that, belongs to code, or another answer stands",
        "408": "The body did not come to its end in time",
        "413": "The body is over the limit; it was not read to the end",
        "415": "This Content-Type carries no event, or no change, which is JSON",
        "421": "The Host header names another server",
        "422": "This Idempotency-Key was used for another request, the source or type of an event is reserved for another door, or the data, the state or the answer does not fit",
        "429": "Too many for now: Retry-After says when to send it again",
        "503": "The store is unavailable: it may be stored; sending it again is safe",
    }
    answers = {status: answer(description, reference("Problem"), MEDIA_TYPE) for status, description in words.items()}
    for status in ("429", "503"):
        answers[status]["headers"] = {"Retry-After": {"schema": {"type": "string"}, "description": "Seconds"}}
    return answers


def _batch_of(name: str) -> Json:
    return {"type": "array", "items": reference(name), "minItems": 1, "maxItems": BATCH_LIMIT}


def _idempotency_key() -> Json:
    return {
        "name": "Idempotency-Key",
        "in": "header",
        "required": False,
        "description": "The same key and the same request again get the same answer",
        "schema": {"type": "string", "minLength": 1, "maxLength": IDEMPOTENCY_KEY_LIMIT, "pattern": "^[!-~]+$"},
    }
