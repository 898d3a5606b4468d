"""JSON schemas of the OpenAPI document, made stricter for tests."""

from __future__ import annotations

from typing import Any


def closed(schema: Any) -> Any:
    """The same schemas, with unknown keys forbidden wherever keys are declared."""
    if isinstance(schema, list):
        return [closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    made = {name: closed(value) for name, value in schema.items()}
    return {"additionalProperties": False, **made} if isinstance(made.get("properties"), dict) else made
