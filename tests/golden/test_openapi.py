"""The OpenAPI document against the frozen one."""

from __future__ import annotations

import json
from typing import Any

import pytest

from golden.openapi import losses, renamed, texts
from golden.store import HERE
from wakeful.api.openapi import document

FROZEN = HERE / "openapi.json"
TEXTS = HERE / "openapi-texts.json"


def test_the_document_only_gains() -> None:
    present = json.loads(json.dumps(document()))
    assert list(losses(json.loads(renamed(FROZEN.read_text())), present)) == []


def test_its_texts(request: pytest.FixtureRequest) -> None:
    present = dict(texts(json.loads(json.dumps(document()))))
    if request.config.getoption("--record"):
        TEXTS.write_text(json.dumps(present, indent=1, ensure_ascii=False) + "\n")
    assert present == json.loads(TEXTS.read_text())


@pytest.mark.parametrize(
    ("before", "after", "lost"),
    [
        ({"a": 1}, {"a": 1, "b": 2}, []),
        ({"a": {"b": 1}}, {"a": {}}, ["a > b: is gone"]),
        ({"a": 1}, {"a": 2}, ["a: was 1, is 2"]),
        ({"enum": ["x", "y"]}, {"enum": ["y", "x", "z"]}, []),
        ({"enum": ["x", "y"]}, {"enum": ["y"]}, ["enum: 'x' is gone"]),
        (
            [{"name": "limit", "in": "query", "schema": {"maximum": 500}}],
            [{"name": "of", "in": "query"}, {"name": "limit", "in": "query", "schema": {"maximum": 5}}],
            ["query limit > schema > maximum: was 500, is 5"],
        ),
        ({"oneOf": [{"type": "null"}]}, {"oneOf": [{"type": "null"}, {"type": "string"}]}, []),
        ({"info": {"version": "1"}}, {"info": {"version": "2"}}, []),
        ({"get": {"summary": "one"}}, {"get": {"summary": "another"}}, []),
        ({"get": {"summary": "one"}}, {"get": {}}, ["get > summary: is gone"]),
    ],
)
def test_losses(before: Any, after: Any, lost: list[str]) -> None:
    assert list(losses(before, after)) == lost
