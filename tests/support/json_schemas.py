"""JSON schemas of the OpenAPI document, made stricter for tests."""

from __future__ import annotations

from typing import Any


def closed(schema: Any) -> Any:
    """The same schemas, with unknown keys forbidden wherever keys are declared. An object whose keys are free says so itself."""
    if isinstance(schema, list):
        return [closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    made = {name: closed(value) for name, value in schema.items()}
    return {"additionalProperties": False, **made} if isinstance(made.get("properties"), dict) else made


def closed_answers(document: dict[str, Any]) -> dict[str, Any]:
    """The document, with unknown keys forbidden in every answer, also in those whose schema stands in their path. Bodies of requests
    stay as free as they are.
    """
    paths = {
        path: {method: {**one, "responses": closed_contents(one["responses"])} for method, one in item.items()}
        for path, item in document["paths"].items()
    }
    return {**document, "paths": paths, "components": {**document["components"], **_closed_components(document)}}


def closed_contents(responses: dict[str, Any]) -> dict[str, Any]:
    """Answers by status. Their examples are data, and stay as they are."""
    made = {}
    for status, answer in responses.items():
        contents = {
            kind: {**content, "schema": closed(content["schema"])}
            for kind, content in answer.get("content", {}).items()
        }
        made[status] = {**answer, "content": contents} if contents else answer
    return made


def _closed_components(document: dict[str, Any]) -> dict[str, Any]:
    components = document["components"]
    return {"schemas": closed(components["schemas"]), "responses": closed_contents(components["responses"])}
