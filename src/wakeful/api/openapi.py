"""The OpenAPI 3.1 document of the API, at /v1/openapi.json. Written by hand; tests compare it with the routes."""

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
from wakeful.api.ports import WebhooksPort
from wakeful.http.problem import MEDIA_TYPE
from wakeful.http.reply import JsonResponse
from wakeful.http.schema import Json, answer, listing, object_of, one, one_of, problems, query, reference
from wakeful.intake.cloudevents import BATCH, BATCH_LIMIT, EXTENSION_NAME_LIMIT, PLAIN, STRUCTURED, TEXT_LIMIT
from wakeful.model import EVENT_STATES
from wakeful.resources import all_resources
from wakeful.surface.openapi import resource_paths, resource_schemas


def openapi_routes(webhooks: WebhooksPort | None = None) -> list[Route]:
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
            "description": "Send events; read runs, events, effects, deliveries, states, alarms and their stories; replay failed work. Errors are problem+json (RFC 9457).",
        },
        "servers": [{"url": "/"}],
        "security": [{}, {"token": []}],
        "paths": _guarded(_merged(_paths(), resource_paths(all_resources()))),
        "components": {
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": "WAKEFUL_TOKEN, if one is set"}
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
                "summary": "Send events",
                "description": (
                    "Answers after the events are on disk. A batch is accepted completely or not at all. A repeated event is a "
                    "duplicate and starts nothing. Binary mode: attributes in ce- headers, data as the body."
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
                    "200": answer("With wait: all runs are finished", reference("Results")),
                    "202": answer("The result for each event", reference("Receipts")),
                    **problems("400", "401", "413", "415", "421", "422", "503"),
                },
            }
        },
        "/v1/why": {
            "get": {
                "operationId": "why_by_query",
                "summary": "Explain what happened to an event, a run, a delivery or a schedule whose id does not fit in a path",
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
            "Explain what happened to an event, a run, an effect, a delivery, an alarm, a schedule or a reminder",
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
                "summary": "Whether the process is alive",
                "security": [{}],
                "responses": {"200": answer("Alive", reference("Health")), **problems("421")},
            }
        },
        "/readyz": {
            "get": {
                "operationId": "readyz",
                "summary": "Whether the store answers and its schema is right",
                "security": [{}, {"token": []}],
                "description": "Callers with the token see each part, others only the status.",
                "responses": {
                    "200": answer("Ready", reference("Health")),
                    "503": answer("Not ready; names the part", reference("Health")),
                    **problems("421"),
                },
            }
        },
    }


def _merged(paths: Json, others: Json) -> Json:
    """Hand-written paths and paths of resources; one path may have methods of both."""
    return paths | {path: paths.get(path, {}) | methods for path, methods in others.items()}


def _guarded(paths: Json) -> Json:
    """Add the answers of the guard, which comes before all paths, to the answers of each path."""
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
    receipt: Json = {
        "source": {"type": "string"},
        "id": {"type": "string"},
        "status": one_of(EVENT_STATES),
        "runs": {"type": "array", "items": {"type": "string"}},
        "conflict": {"const": True, "description": "Present if the same event was seen before with different content"},
        "skipped": {
            "type": "object",
            "additionalProperties": {"type": "string"},
            "description": "Agents that started no run because an earlier one had not finished, with the reason",
        },
    }
    problem: Json = {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "field": {"type": "string", "description": "The attribute, header or parameter that is wrong"},
        "index": {"type": "integer", "description": "Position of the event in the batch"},
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
                    "description": "A remark while ready, for example that the schema is newer but compatible",
                },
                "parts": {"type": "object"},
            },
            "status",
        ),
        "Problem": object_of(problem, "type", "title", "status", "detail"),
    }


def _responses() -> Json:
    """The ways in which a request is refused, all with the same shape, problem+json."""
    words = {
        "400": "The request is invalid: field names the part, index the event of a batch",
        "401": "The token is missing or wrong",
        "403": "This server has no token, and changes or requests from other machines need one; or the request comes from a foreign web page",
        "404": "Nothing has that name",
        "409": "The current state does not allow this, it is declared in code, or it was already answered differently",
        "408": "The body was not complete in time",
        "413": "The body exceeds the limit; it was not read completely",
        "415": "This Content-Type is not one for events, or not JSON for a change",
        "421": "The Host header names another server",
        "422": "This Idempotency-Key was used for another request, the source or type of an event is reserved, or the data, the state or the answer does not fit",
        "429": "Too many requests: send it again after the time in Retry-After",
        "503": "The store is unavailable. The request may have been stored; sending it again is safe",
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
        "description": "A repeated request with the same key gets the same answer",
        "schema": {"type": "string", "minLength": 1, "maxLength": IDEMPOTENCY_KEY_LIMIT, "pattern": "^[!-~]+$"},
    }
