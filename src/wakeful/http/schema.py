"""Parts of the OpenAPI document: schemas, answers, parameters, operations."""

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


def answer(description: str, schema: Json, media_type: str = "application/json", example: Any = None) -> Json:
    """An answer. Without an example of its own, one is made from the schema."""
    content = {"schema": schema} if example is None else {"schema": schema, "example": example}
    return {"description": description, "content": {media_type: content}}


def query(name: str, schema: Json, description: str) -> Json:
    return {"name": name, "in": "query", "required": False, "description": description, "schema": schema}


def in_path(name: str, example: str) -> Json:
    schema = {"type": "string", "minLength": 1}
    return {"name": name, "in": "path", "required": True, "schema": schema, "example": example}


def operation(name: str, tag: str, summary: str, responses: Json, **more: Any) -> Json:
    """An operation that is not generated from a resource. `more`: its description, parameters, body and security."""
    return {"operationId": name, "summary": summary, "tags": [tag], **more, "responses": responses}


def operator() -> Json:
    """The header that names the operator."""
    return {
        "name": OPERATOR,
        "in": "header",
        "required": False,
        "description": "Who does this, for the record",
        "schema": {"type": "string", "maxLength": OPERATOR_LIMIT, "pattern": "^[ -~]*$"},
    }
