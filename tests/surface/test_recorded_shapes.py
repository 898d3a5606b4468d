"""The document against what the HTTP API answers: every key that a recorded answer has is declared, with its type."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from support.json_schemas import closed_answers
from wakeful.api.openapi import document

RECORDED = Path(__file__).parents[1] / "golden" / "recorded" / "http"
DOCUMENT = closed_answers(document())


def pattern_of(path: str) -> re.Pattern[str]:
    """What a path matches. The last key of a path may contain slashes."""
    return re.compile(re.sub(r"\\{\w+\\}", ".+", re.escape(path)))


# As the routes are: longer paths first, and of those with the same length, paths without keys.
PATHS = sorted(DOCUMENT["paths"], key=lambda path: (-path.count("/"), path.count("{")))


def schema_of(request: str, status: int, kind: str) -> Any:
    """The schema of an answer, or None for a request that no operation describes."""
    method, _, address = request.partition(" ")
    path = address.partition("?")[0]
    item = next((DOCUMENT["paths"][one] for one in PATHS if pattern_of(one).fullmatch(path)), {})
    answer = item.get(method.lower(), {}).get("responses", {}).get(str(status))
    if answer is None:
        return None
    if "$ref" in answer:
        answer = DOCUMENT["components"]["responses"][answer["$ref"].rpartition("/")[2]]
    return {**answer["content"][kind]["schema"], "components": DOCUMENT["components"]}


@pytest.mark.parametrize(
    "path",
    [pytest.param(one, id=str(one.relative_to(RECORDED).with_suffix(""))) for one in sorted(RECORDED.rglob("*.json"))],
)
def test_every_key_of_an_answer_is_declared(path: Path) -> None:
    recorded = json.loads(path.read_text())
    schema = schema_of(recorded["request"], recorded["status"], recorded["content-type"])
    if schema is None:
        assert recorded["status"] in {404, 405}, "the document does not name this answer"
        return
    found = [
        f"{error.json_path}: {error.message}" for error in Draft202012Validator(schema).iter_errors(recorded["body"])
    ]
    assert found == []
