"""The words that the OpenAPI document is written with: schemas, answers, parameters, and the two usual kinds of path."""

from __future__ import annotations

from typing import Any

from wakeful.http.change import OPERATOR, OPERATOR_LIMIT
from wakeful.http.parameters import LIMIT_DEFAULT, LIMIT_LARGEST

Json = dict[str, Any]


def problems(*statuses: str) -> Json:
    return {status: {"$ref": f"#/components/responses/{status}"} for status in statuses}


def reference(name: str) -> Json:
    return {"$ref": f"#/components/schemas/{name}"}


def object_of(properties: Json, *required: str) -> Json:
    return {"type": "object", "properties": properties, "required": list(required)}


def listing(name: str, items: Json) -> Json:
    return object_of({name: {"type": "array", "items": items}}, name)


def page(name: str, items: str) -> Json:
    properties = {name: {"type": "array", "items": reference(items)}, "next": {"type": ["string", "null"]}}
    return object_of(properties, name, "next")


def one_of(states: frozenset[Any] | tuple[str, ...]) -> Json:
    return {"type": "string", "enum": sorted(states)}


def answer(description: str, schema: Json, media_type: str = "application/json") -> Json:
    return {"description": description, "content": {media_type: {"schema": schema}}}


def query(name: str, schema: Json, description: str) -> Json:
    return {"name": name, "in": "query", "required": False, "description": description, "schema": schema}


def limit() -> Json:
    schema = {"type": "integer", "minimum": 1, "maximum": LIMIT_LARGEST, "default": LIMIT_DEFAULT}
    return query("limit", schema, "How many at most")


def after() -> Json:
    return query("after", {"type": "string"}, 'The "next" of the page before')


def one(operation: str, summary: str, parameter: str, schema: str) -> Json:
    path = {"name": parameter, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
    return {
        "get": {
            "operationId": operation,
            "summary": summary,
            "parameters": [path],
            "responses": {"200": answer("Found", reference(schema)), **problems("401", "404", "421", "503")},
        }
    }


def change(
    operation: str,
    summary: str,
    fields: Json,
    schema: str,
    *statuses: str,
    parameter: str | None = None,
    method: str = "post",
    required: tuple[str, ...] = (),
) -> Json:
    """A request that changes something: with the token, and a JSON object that may be left out where nothing is required."""
    operator = {
        "name": OPERATOR,
        "in": "header",
        "required": False,
        "description": "Who does this, for the record",
        "schema": {"type": "string", "maxLength": OPERATOR_LIMIT, "pattern": "^[ -~]*$"},
    }
    path = {"name": parameter, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
    body = {**object_of(fields, *required), "additionalProperties": False}
    return {
        method: {
            "operationId": operation,
            "summary": summary,
            "security": [{"token": []}],
            "parameters": [path, operator] if parameter is not None else [operator],
            "requestBody": {"required": bool(required), "content": {"application/json": {"schema": body}}},
            "responses": {
                "200": answer("Done", reference(schema)),
                **problems("400", "401", "403", *statuses, "413", "421", "503"),
            },
        }
    }
