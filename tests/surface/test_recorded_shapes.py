"""The views against what the HTTP API answers: every key that a recorded answer has is declared, with its type."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from support.json_schemas import closed
from wakeful.api.openapi import document

RECORDED = Path(__file__).parents[1] / "golden" / "recorded" / "http"
# The schema of an item of a listing, and of one thing.
SCHEMAS = {
    "events": ("StoredEvent", "StoredEvent"),
    "reminders": ("Reminder", "Reminder"),
    "runs": ("Run", "RunDetail"),
}


def answers() -> list[tuple[str, Path]]:
    return [(noun, path) for noun in SCHEMAS for path in sorted((RECORDED / noun).glob("*.json"))]


@pytest.fixture(scope="module")
def schemas() -> Any:
    return closed(document()["components"]["schemas"])


@pytest.mark.parametrize(("noun", "path"), answers(), ids=lambda one: one if isinstance(one, str) else one.stem)
def test_every_key_of_an_answer_is_declared(schemas: Any, noun: str, path: Path) -> None:
    body = json.loads(path.read_text())["body"]
    for one in body.get(noun, [body]):
        name = SCHEMAS[noun][noun not in body]
        schema = {"$ref": f"#/components/schemas/{name}", "components": {"schemas": schemas}}
        found = [f"{error.json_path}: {error.message}" for error in Draft202012Validator(schema).iter_errors(one)]
        assert found == []
