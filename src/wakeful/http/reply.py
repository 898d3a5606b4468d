"""Answers as JSON."""

from __future__ import annotations

from typing import Any

from pydantic_core import to_json
from starlette.responses import Response

from wakeful.http.problem import Problem
from wakeful.redaction import redact_bytes


class JsonResponse(Response):
    """JSON encoded by pydantic, like all stored data, with known secrets redacted."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        # A result may contain NaN, which JSON cannot express.
        return redact_bytes(to_json(content, inf_nan_mode="null"))


def found(thing: Any, what: str) -> JsonResponse:
    """A thing, or 404 if there is none."""
    if thing is None:
        raise Problem(404, f"there is no {what} of that name", kind="not-found", title="There is nothing of that name")
    return JsonResponse(thing)
