"""The OpenAPI 3.1 document of the API, at /v1/openapi.json. Written by hand, and held to the routes by the tests."""

from __future__ import annotations

from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from wakeful.api.alarms import ALARM_STATES
from wakeful.api.change import NOTE_LIMIT, OPERATOR, OPERATOR_LIMIT
from wakeful.api.effects import EFFECT_STATES
from wakeful.api.events import IDEMPOTENCY_KEY_LIMIT
from wakeful.api.parameters import LIMIT_DEFAULT, LIMIT_LARGEST
from wakeful.api.problem import MEDIA_TYPE
from wakeful.api.redo import SLICE
from wakeful.api.reply import JsonResponse
from wakeful.intake.cloudevents import BATCH, BATCH_LIMIT, EXTENSION_NAME_LIMIT, PLAIN, STRUCTURED, TEXT_LIMIT
from wakeful.model import EVENT_STATES, RUN_STATES, STORED_EVENT_STATES
from wakeful.redo import MANY

Json = dict[str, Any]


def openapi_routes() -> list[Route]:
    async def show(_: Request) -> Response:
        return JsonResponse(document())

    return [Route("/v1/openapi.json", show, name="openapi")]


@lru_cache(maxsize=1)
def document() -> Json:
    """The whole document."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Wakeful",
            "version": _version(),
            "description": "Events in; runs, events, effects, alarms and their stories out; what failed is redone. Errors are problem+json (RFC 9457).",
        },
        "servers": [{"url": "/"}],
        "security": [{}, {"token": []}],
        "paths": _paths(),
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
                "parameters": [_idempotency_key()],
                "requestBody": {
                    "required": True,
                    "content": {
                        STRUCTURED: {"schema": _reference("Event")},
                        BATCH: {"schema": _batch_of("Event")},
                        PLAIN: {"schema": {"oneOf": [_reference("PlainEvent"), _batch_of("PlainEvent")]}},
                    },
                },
                "responses": {
                    "202": _answer("What became of each event", _reference("Receipts")),
                    **_problems("400", "401", "413", "415", "421", "422", "503"),
                },
            },
            "get": {
                "operationId": "list_events",
                "summary": "List events, newest first",
                "parameters": [
                    _query("type", {"type": "string"}, "Only events of this type"),
                    _query("state", _one_of(STORED_EVENT_STATES), "Only events in this state"),
                    _query("id", {"type": "string"}, "Only the event of this CloudEvents id or key"),
                    _limit(),
                    _after(),
                ],
                "responses": {
                    "200": _answer("A page of events", _page("events", "StoredEvent")),
                    **_problems("400", "401", "421", "503"),
                },
            },
        },
        "/v1/events/{key}": _one("get_event", "One event, by its key or its CloudEvents id", "key", "StoredEvent"),
        "/v1/runs": {
            "get": {
                "operationId": "list_runs",
                "summary": "List runs, newest first",
                "parameters": [
                    _query("agent", {"type": "string"}, "Only runs of this agent"),
                    _query("state", _one_of(RUN_STATES), "Only runs in this state"),
                    _query("event", {"type": "string"}, "Only runs of this event, by its key or its CloudEvents id"),
                    _limit(),
                    _after(),
                ],
                "responses": {
                    "200": _answer("A page of runs", _page("runs", "Run")),
                    **_problems("400", "401", "421", "503"),
                },
            }
        },
        "/v1/runs/{id}": _one(
            "get_run", "One run, with its steps, effects, decisions, deliveries and outcome", "id", "RunDetail"
        ),
        "/v1/why": {
            "get": {
                "operationId": "why_by_query",
                "summary": "The whole story of an event or a run, by an id that no path can carry",
                "parameters": [
                    {**_query("id", {"type": "string", "minLength": 1}, "Id of an event or a run"), "required": True}
                ],
                "responses": {
                    "200": _answer("The story", _reference("Story")),
                    **_problems("400", "401", "404", "421", "503"),
                },
            }
        },
        "/v1/why/{identifier}": _one("why", "The whole story of an event or a run", "identifier", "Story"),
        **_effect_paths(),
        **_redo_paths(),
        "/v1/alarms": {
            "get": {
                "operationId": "list_alarms",
                "summary": "List alarms",
                "parameters": [_query("state", _one_of(ALARM_STATES), "Only alarms in this state")],
                "responses": {
                    "200": _answer("The alarms", _listing("alarms", {"type": "object"})),
                    **_problems("400", "401", "421", "503"),
                },
            }
        },
        "/v1/openapi.json": {
            "get": {
                "operationId": "openapi",
                "summary": "This document",
                "responses": {"200": _answer("OpenAPI 3.1", {"type": "object"}), **_problems("401", "421")},
            }
        },
        "/healthz": {
            "get": {
                "operationId": "healthz",
                "summary": "Does the process live?",
                "security": [{}],
                "responses": {"200": _answer("It lives", _reference("Health")), **_problems("421")},
            }
        },
        "/readyz": {
            "get": {
                "operationId": "readyz",
                "summary": "Does the store answer, and is its schema right?",
                "security": [{}],
                "responses": {
                    "200": _answer("Ready", _reference("Health")),
                    "503": _answer("Not ready, and which part is not", _reference("Health")),
                    **_problems("421"),
                },
            }
        },
    }


def _effect_paths() -> Json:
    note: Json = {"note": {"type": ["string", "null"], "minLength": 1, "maxLength": NOTE_LIMIT, "description": "Why"}}
    result: Json = {"result": {"description": "What the call would have returned"}}
    words: dict[str, tuple[str, Json]] = {
        "confirm": ("It was done: the run goes on as if the call had returned", note | result),
        "repeat": ("It was not done: call again, under the same operation id", note),
        "abandon": ("It shall not be done: the handler is told so", note),
    }
    listing = {
        "operationId": "list_effects",
        "summary": "List what runs did to the outside world, newest first",
        "parameters": [_query("state", _one_of(EFFECT_STATES), "Only effects in this state"), _limit(), _after()],
        "responses": {
            "200": _answer("A page of effects", _page("effects", "Effect")),
            **_problems("400", "401", "421", "503"),
        },
    }
    paths = {
        "/v1/effects": {"get": listing},
        "/v1/effects/{id}": _one("get_effect", "One effect, by its id or its beginning", "id", "Effect"),
    }
    for verb, (summary, fields) in words.items():
        paths[f"/v1/effects/{{id}}/{verb}"] = _change(
            f"{verb}_effect", summary, fields, "Settled", "404", "409", parameter="id"
        )
    return paths


def _redo_paths() -> Json:
    text = {"type": ["string", "null"], "minLength": 1, "maxLength": NOTE_LIMIT}
    flag = {"type": "boolean", "default": False}
    note = {"note": {**text, "description": "Why"}}
    data = {"data": {"description": "Handed to the handler instead of the event's own data"}}
    again = {"again": {**flag, "description": "Also a run that is done, as a new one of its family"}}
    moment = {**text, "description": "RFC 3339, a date, or how long ago, like 2h"}
    chosen: Json = {
        "agent": {**text, "description": "Dead letters of this agent"},
        "error": {**text, "description": "Dead letters whose error contains this"},
        "all": {**flag, "description": "All dead letters"},
        "until": {**moment, "description": "Only what had died before then: the until of the first answer"},
    }
    events: Json = {"type": text, "from": moment, "to": moment, "agent": text}
    many: Json = {
        "filter": {**_object(chosen), "type": ["object", "null"], "additionalProperties": False},
        "events": {
            **_object(events, "type", "from", "agent"),
            "type": ["object", "null"],
            "additionalProperties": False,
        },
        "plan": {**flag, "description": "Only say what would be done"},
        "yes": {**flag, "description": f"Also when there are more than {MANY:,}"},
        "rate": {"type": ["string", "number", "null"], "description": "So many a second, like 20/s, or max"},
        **note,
    }
    return {
        "/v1/dead": {
            "get": {
                "operationId": "list_dead",
                "summary": "Dead letters, grouped by agent and error",
                "parameters": [
                    _query("agent", {"type": "string"}, "Only of this agent"),
                    _query("error", {"type": "string"}, "Only those whose error contains this"),
                ],
                "responses": {
                    "200": _answer("The groups", _listing("groups", _reference("DeadGroup"))),
                    **_problems("400", "401", "421", "503"),
                },
            }
        },
        "/v1/runs/{id}/replay": _change(
            "replay_run",
            "Let a run that is over go on",
            again | data | note,
            "RedoneRun",
            "404",
            "409",
            "422",
            parameter="id",
        ),
        "/v1/runs/{id}/discard": _change(
            "discard_run", "Give up on a dead letter for good", note, "RedoneRun", "404", "409", parameter="id"
        ),
        "/v1/replay": _change(
            "replay",
            f"Replay many dead letters, or hand stored events to an agent: up to {SLICE:,} in one request",
            many,
            "Redone",
            "404",
            "409",
        ),
    }


def _change(
    operation: str, summary: str, fields: Json, schema: str, *problems: str, parameter: str | None = None
) -> Json:
    """A POST that changes something: with the token, and a JSON object that may be left out."""
    operator = {
        "name": OPERATOR,
        "in": "header",
        "required": False,
        "description": "Who does this, for the record",
        "schema": {"type": "string", "maxLength": OPERATOR_LIMIT, "pattern": "^[ -~]*$"},
    }
    path = {"name": parameter, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
    body = {**_object(fields), "additionalProperties": False}
    return {
        "post": {
            "operationId": operation,
            "summary": summary,
            "security": [{"token": []}],
            "parameters": [path, operator] if parameter is not None else [operator],
            "requestBody": {"required": False, "content": {"application/json": {"schema": body}}},
            "responses": {
                "200": _answer("Done", _reference(schema)),
                **_problems("400", "401", "403", *problems, "413", "421", "503"),
            },
        }
    }


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
    reference: Json = {
        "type": "object",
        "properties": {name: {"type": "string"} for name in ("source", "id", "type")},
        "required": ["source", "id", "type"],
    }
    run: Json = {
        "id": {"type": "string"},
        "agent": {"type": "string"},
        "state": _one_of(RUN_STATES),
        "attempts": {"type": "integer"},
        "event": reference,
        "created_at": moment,
        "finished_at": {"type": ["string", "null"], "format": "date-time"},
    }
    detail: Json = {name: {"type": "array"} for name in ("steps", "effects", "decisions", "deliveries")}
    detail |= {"output": {}, "error": {"type": ["object", "null"]}, "outcome": {"type": ["object", "null"]}}
    receipt: Json = {
        "source": {"type": "string"},
        "id": {"type": "string"},
        "status": _one_of(EVENT_STATES),
        "runs": {"type": "array", "items": {"type": "string"}},
        "conflict": {"const": True, "description": "There when the same event was seen before with other content"},
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
        "Receipts": _listing("events", _object(receipt, "source", "id", "status", "runs")),
        **_redo_schemas(),
        "StoredEvent": reference,
        "Run": _object(run, *run),
        "RunDetail": _object(run | detail, *run, *detail),
        "Story": {"type": "object"},
        "Health": _object({"status": {"type": "string"}, "parts": {"type": "object"}}, "status"),
        "Problem": _object(problem, "type", "title", "status", "detail"),
    }


def _redo_schemas() -> Json:
    text, count, nullable = {"type": "string"}, {"type": "integer", "minimum": 0}, {"type": ["string", "null"]}
    effect: Json = {
        "id": text,
        "action": text,
        "safety": text,
        "state": _one_of(EFFECT_STATES),
        "reason": nullable,
        "run": text,
        "agent": text,
        "settled_by": nullable,
        "note": nullable,
    }
    group: Json = {
        "agent": text,
        "error": text,
        "count": count,
        "last_at": nullable,
        "confirmed_effects": count,
        "runs": {"type": "array", "items": text},
    }
    plan: Json = {
        "count": {**count, "description": "plan of a filter: how many dead letters"},
        "groups": {"type": "array", "items": _reference("DeadGroup")},
        "confirmed_effects": {**count, "description": "How many would be found and not repeated"},
        "confirmed_actions": {"type": "object", "additionalProperties": count, "description": "Of which actions"},
        "events": {**count, "description": "plan of events: how many are like that"},
        "new": {**count, "description": "How many of them the agent has not had"},
    }
    done: Json = {
        "redone": {**count, "description": "How many this request did"},
        "left": {**count, "description": "How many are left: send the same again until it is 0"},
        "already_had": count,
        "denied": count,
        "until": {**text, "description": "Give this as filter.until of the next request"},
        "from": text,
        "to": text,
    }
    return {
        "Effect": _object(effect, *effect),
        "Settled": _object({"id": text, "state": text, "run": text, "first": {"const": True}}, "id", "state", "run"),
        "DeadGroup": _object(group, *group),
        "RedoneRun": _object({"run": text, "was": text, "confirmed_effects": count}, "run", "was"),
        "Redone": _object(plan | done),
    }


def _responses() -> Json:
    """The ways in which a request is refused; each is the same shape, problem+json."""
    words = {
        "400": "Something in it is wrong: field says what, index which event of a batch",
        "401": "The token is missing or wrong",
        "403": "This server has no token, and changing things needs one",
        "404": "There is nothing of that name",
        "409": "It is not in a state for that, or another answer stands",
        "413": "The body is over the limit; it was not read to the end",
        "415": "This Content-Type carries no event",
        "421": "The Host header names another server",
        "422": "This Idempotency-Key was used for another request, or the data does not fit the agent",
        "503": "The store is unavailable: it may be stored; sending it again is safe",
    }
    answers = {status: _answer(description, _reference("Problem"), MEDIA_TYPE) for status, description in words.items()}
    answers["503"]["headers"] = {"Retry-After": {"schema": {"type": "string"}, "description": "Seconds"}}
    return answers


def _problems(*statuses: str) -> Json:
    return {status: {"$ref": f"#/components/responses/{status}"} for status in statuses}


def _reference(name: str) -> Json:
    return {"$ref": f"#/components/schemas/{name}"}


def _object(properties: Json, *required: str) -> Json:
    return {"type": "object", "properties": properties, "required": list(required)}


def _listing(name: str, items: Json) -> Json:
    return _object({name: {"type": "array", "items": items}}, name)


def _page(name: str, items: str) -> Json:
    properties = {name: {"type": "array", "items": _reference(items)}, "next": {"type": ["string", "null"]}}
    return _object(properties, name, "next")


def _batch_of(name: str) -> Json:
    return {"type": "array", "items": _reference(name), "minItems": 1, "maxItems": BATCH_LIMIT}


def _one_of(states: frozenset[Any] | tuple[str, ...]) -> Json:
    return {"type": "string", "enum": sorted(states)}


def _answer(description: str, schema: Json, media_type: str = "application/json") -> Json:
    return {"description": description, "content": {media_type: {"schema": schema}}}


def _query(name: str, schema: Json, description: str) -> Json:
    return {"name": name, "in": "query", "required": False, "description": description, "schema": schema}


def _limit() -> Json:
    schema = {"type": "integer", "minimum": 1, "maximum": LIMIT_LARGEST, "default": LIMIT_DEFAULT}
    return _query("limit", schema, "How many at most")


def _after() -> Json:
    return _query("after", {"type": "string"}, 'The "next" of the page before')


def _idempotency_key() -> Json:
    return {
        "name": "Idempotency-Key",
        "in": "header",
        "required": False,
        "description": "The same key and the same request again get the same answer",
        "schema": {"type": "string", "minLength": 1, "maxLength": IDEMPOTENCY_KEY_LIMIT, "pattern": "^[!-~]+$"},
    }


def _one(operation: str, summary: str, parameter: str, schema: str) -> Json:
    path = {"name": parameter, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
    return {
        "get": {
            "operationId": operation,
            "summary": summary,
            "parameters": [path],
            "responses": {"200": _answer("Found", _reference(schema)), **_problems("401", "404", "421", "503")},
        }
    }
