"""The OpenAPI document is complete: each operation has its tags, summary and name; each answer has typed keys and an example; each
example fits its schema.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from jsonschema import Draft202012Validator, FormatChecker

from support.json_schemas import closed
from wakeful import App, Run, webhook
from wakeful.api.openapi import document
from wakeful.api.openapi_webhooks import webhook_paths
from wakeful.triggers.endpoint import read_endpoints
from wakeful.verify import github

JSON = "application/json"
PROBLEM = "application/problem+json"
COMPONENTS = document()["components"]


def webhooks() -> dict[str, Any]:
    app = App("desk")

    @app.agent(webhook("/hooks/tickets", verify=github(secret="s" * 40)), owner="ops")
    async def triage(run: Run) -> None: ...

    return webhook_paths(read_endpoints(app.agents.values()).values())


PATHS = document()["paths"] | webhooks()
OPERATIONS = [
    pytest.param(operation, id=f"{method.upper()} {path}")
    for path, item in PATHS.items()
    for method, operation in item.items()
]


def answers(operation: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The content of each answer, with its status and type."""
    for status, answer in operation["responses"].items():
        for kind, content in answer.get("content", {}).items():
            yield f"{status} {kind}", content


def bodies(operation: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for kind, content in operation.get("requestBody", {}).get("content", {}).items():
        yield f"body {kind}", content


def misfits(schema: Any, example: Any) -> list[str]:
    """Why an example does not fit a schema. Keys that the schema does not name do not fit."""
    components = {**COMPONENTS, "schemas": closed(COMPONENTS["schemas"])}
    whole = {**closed(schema), "components": components}
    validator = Draft202012Validator(whole, format_checker=FormatChecker())
    return [f"{error.json_path}: {error.message}" for error in validator.iter_errors(example)]


@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_operation_has_its_tag_summary_and_name(operation: dict[str, Any]) -> None:
    assert len(operation["tags"]) == 1
    assert operation["summary"][:1].isupper()
    assert operation["operationId"].isidentifier()
    assert any(status.startswith("2") for status in operation["responses"])


@pytest.mark.parametrize("operation", OPERATIONS)
def test_bodies_and_answers_have_examples_that_fit(operation: dict[str, Any]) -> None:
    for where, content in (*bodies(operation), *answers(operation)):
        assert "example" in content, where
        assert "…" not in repr(content["example"]), f"{where}: give the key a typical value in surface/examples.py"
        assert misfits(content["schema"], content["example"]) == [], where


@pytest.mark.parametrize("status", list(COMPONENTS["responses"]))
def test_problems_have_examples_that_fit(status: str) -> None:
    content = COMPONENTS["responses"][status]["content"][PROBLEM]
    assert misfits(content["schema"], content["example"]) == []
    assert content["example"]["status"] == int(status)


# types


def untyped(schema: Any, place: str) -> Iterator[str]:
    """Places in a schema where the type of a value, or the keys of an object, are not told.

    A value of any type says so in its description, and an object with any keys in `additionalProperties`.
    """
    if "$ref" in schema:
        return
    kinds = schema.get("type", [])
    if kinds in ("object", ["object", "null"]):
        if not schema.get("properties") and "additionalProperties" not in schema:
            yield f"{place}: no keys"
        for name, inner in schema.get("properties", {}).items():
            yield from untyped(inner, f"{place}.{name}")
        if isinstance(schema.get("additionalProperties"), dict):
            yield from untyped(schema["additionalProperties"], f"{place}.*")
    elif "array" in kinds:
        if not schema.get("items"):
            yield f"{place}: no items"
        else:
            yield from untyped(schema["items"], f"{place}[]")
    choices = schema.get("anyOf") or schema.get("oneOf")
    for number, inner in enumerate(choices or []):
        yield from untyped(inner, f"{place}|{number}")
    if not choices and schema.keys().isdisjoint({"type", "enum", "const"}) and "description" not in schema:
        yield f"{place}: no type"


@pytest.mark.parametrize("operation", OPERATIONS)
def test_answers_have_typed_keys(operation: dict[str, Any]) -> None:
    found = [
        place
        for where, content in (*bodies(operation), *answers(operation))
        for place in untyped(content["schema"], where)
    ]
    assert found == []


@pytest.mark.parametrize("name", list(COMPONENTS["schemas"]))
def test_schemas_have_typed_keys(name: str) -> None:
    assert list(untyped(COMPONENTS["schemas"][name], name)) == []


def test_every_json_answer_is_an_object_or_a_reference() -> None:
    for operation in (one for item in PATHS.values() for one in item.values()):
        for where, content in answers(operation):
            if where.startswith("2") and where.endswith(JSON):
                assert content["schema"].keys() & {"$ref", "properties", "anyOf"}, (operation["operationId"], where)
