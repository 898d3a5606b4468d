"""Errors as problem+json (RFC 9457), and the table of status codes for errors.

{"type": "urn:wakeful:problem:invalid-event", "title": "…", "status": 400, "detail": "…", "field": "id", "index": 3}
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from pydantic_core import to_json
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match

from wakeful.errors import IdempotencyConflict, InvalidEvent, NotFound, ReservedName, SchemaMismatch, StoreUnavailable
from wakeful.intake.cloudevents import UnsupportedContentType
from wakeful.redaction import redact_bytes
from wakeful.resources.refusals import NotAllowed, Refused

MEDIA_TYPE = "application/problem+json"
RETRY_AFTER = "1"  # seconds; the database is usually back within a few, and refusing again is cheap


class Problem(Exception):
    """An error response. Raised anywhere in the API, it becomes problem+json."""

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        kind: str | None = None,
        title: str | None = None,
        field: str | None = None,
        index: int | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.kind = f"urn:wakeful:problem:{kind}" if kind else "about:blank"
        self.title = title or HTTPStatus(status).phrase
        self.field = field
        self.index = index
        self.headers = dict(headers or {})

    def to_json(self) -> dict[str, Any]:
        members: dict[str, Any] = {"type": self.kind, "title": self.title, "status": self.status, "detail": self.detail}
        if self.field is not None:
            members["field"] = self.field
        if self.index is not None:
            members["index"] = self.index
        return members

    def response(self) -> Response:
        content = redact_bytes(to_json(self.to_json()))
        return Response(content, status_code=self.status, headers=self.headers, media_type=MEDIA_TYPE)


def problem_of(error: Exception, *, reading: bool = False) -> Problem:
    """The problem for an error; `reading`: the request only reads. The first matching case decides."""
    match error:
        case Problem():
            return error
        case UnsupportedContentType():
            title = "This Content-Type carries no event"
            return Problem(415, str(error), kind="unsupported-content-type", title=title, field=error.field)
        case ReservedName():
            title = "This name is reserved"
            return Problem(422, _at(error), kind="reserved-name", title=title, field=error.field, index=error.index)
        case InvalidEvent():
            title = "The event cannot be accepted"
            return Problem(400, _at(error), kind="invalid-event", title=title, field=error.field, index=error.index)
        case IdempotencyConflict():
            title = "This Idempotency-Key was used for another request"
            detail = str(error) or "use a new key for a new request"
            return Problem(422, detail, kind="idempotency-conflict", title=title, field="Idempotency-Key")
        case Refused():
            return Problem(error.status, str(error), kind=error.kind, title=error.title, field=error.field)
        case NotAllowed():
            return Problem(403, str(error), kind="not-allowed", title="This is not allowed")
        case NotFound():
            return Problem(404, str(error), kind="not-found", title="There is nothing of that name")
        case SchemaMismatch():
            title = "The database's schema is not the one this version works with"
            return Problem(503, str(error), kind="schema-mismatch", title=title, headers={"Retry-After": RETRY_AFTER})
        case StoreUnavailable(locked=True):
            title = "The store is unavailable"
            detail = f"{error}. Nothing was stored; sending it again is safe"
            return Problem(503, detail, kind="store-unavailable", title=title, headers={"Retry-After": RETRY_AFTER})
        case StoreUnavailable():
            title = "The store is unavailable"
            detail = (
                "the database does not answer; try again" if reading else "it may be stored; sending it again is safe"
            )
            return Problem(503, detail, kind="store-unavailable", title=title, headers={"Retry-After": RETRY_AFTER})
        case HTTPException():
            detail = error.detail if error.detail != HTTPStatus(error.status_code).phrase else ""
            return Problem(error.status_code, detail or _words(error.status_code), headers=error.headers)
        case _:
            return Problem(500, "internal error; the log of Wakeful has the details", kind="internal")


def _at(error: InvalidEvent) -> str:
    """The error, with the index of the event in a batch."""
    return str(error) if error.index is None else f"event at index {error.index} of the batch: {error}"


def _words(status: int) -> str:
    match status:
        case 404:
            return "nothing at this path; /v1/openapi.json lists all paths"
        case 405:
            return "this path does not support this method; the Allow header lists the supported ones"
        case _:
            return HTTPStatus(status).phrase


async def answer_with_problem(request: Request, error: Exception) -> Response:
    """The exception handler of the API: every error leaves as problem+json."""
    problem = problem_of(error, reading=request.method in ("GET", "HEAD"))
    if problem.status == HTTPStatus.METHOD_NOT_ALLOWED:
        told = {one for one in problem.headers.get("Allow", "").split(", ") if one}  # of the route that refused it
        problem.headers["Allow"] = ", ".join(sorted(told | _methods_of(request)))
    return problem.response()


def _methods_of(request: Request) -> set[str]:
    """The methods of a path over all of its routes: a hand-written route and a resource's route may share a path."""
    fitting = (one for one in request.app.routes if one.matches(request.scope)[0] is not Match.NONE)
    return {method for one in fitting for method in getattr(one, "methods", None) or ()}


HANDLED: tuple[type[Exception], ...] = (
    Problem,
    InvalidEvent,
    IdempotencyConflict,
    Refused,
    NotAllowed,
    NotFound,
    SchemaMismatch,
    StoreUnavailable,
    HTTPException,
    Exception,
)
