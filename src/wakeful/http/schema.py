"""Parts of the OpenAPI document: schemas, answers, parameters, and the path of one thing."""

from __future__ import annotations

from typing import Any

from wakeful.http.change import OPERATOR, OPERATOR_LIMIT

Json = dict[str, Any]


def problems(*statuses: str) -> Json:
    return {status: {"$ref": f"#/components/responses/{status}"} for status in statuses}


def reference(name: str) -> Json:
    return {"$ref": f"#/components/schemas/{name}"}


def object_of(properties: Json, *required: str) -> Json:
    return {"type": "object", "properties": properties, "required": list(required)}


def listing(name: str, items: Json) -> Json:
    return object_of({name: {"type": "array", "items": items}}, name)


def one_of(states: frozenset[Any] | tuple[str, ...]) -> Json:
    return {"type": "string", "enum": sorted(states)}


def answer(description: str, schema: Json, media_type: str = "application/json") -> Json:
    return {"description": description, "content": {media_type: {"schema": schema}}}


def query(name: str, schema: Json, description: str) -> Json:
    return {"name": name, "in": "query", "required": False, "description": description, "schema": schema}


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


def operator() -> Json:
    """The header that names the operator."""
    return {
        "name": OPERATOR,
        "in": "header",
        "required": False,
        "description": "Who does this, for the record",
        "schema": {"type": "string", "maxLength": OPERATOR_LIMIT, "pattern": "^[ -~]*$"},
    }
