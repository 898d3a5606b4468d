"""Answers of the HTTP server itself to requests that never reach the app. Rendered once, at start-up."""

from __future__ import annotations

from dataclasses import dataclass, field
from http import HTTPStatus

from wakeful.cli.http_limits import HEAD_LIMIT, HEADERS_LIMIT
from wakeful.http.problem import Problem

RETRY_AFTER = "5"  # seconds, by which most idle connections are closed


@dataclass(frozen=True, slots=True)
class Refusal:
    """The answer to the client, and the name under which the log counts it."""

    name: str
    problem: Problem | None
    """None: close the connection without an answer, because none is owed or none can be read."""
    answer: bytes = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "answer", b"" if self.problem is None else _written(self.problem))


def _written(problem: Problem) -> bytes:
    problem.headers["Connection"] = "close"
    response = problem.response()
    lines = [f"HTTP/1.1 {problem.status} {HTTPStatus(problem.status).phrase}".encode()]
    lines += [name + b": " + value for name, value in response.raw_headers]
    return b"\r\n".join([*lines, b"", bytes(response.body)])


NOT_HTTP = Refusal("not_http", Problem(400, "this is not an HTTP/1.1 request", kind="bad-request"))
HEAD_TOO_LARGE = Refusal(
    "headers_too_large",
    Problem(
        431,
        f"the request line and headers exceed {HEAD_LIMIT:,} bytes or {HEADERS_LIMIT} headers: "
        "send large values in the body",
        kind="headers-too-large",
    ),
)
WRAPPING_TOO_LARGE = Refusal(
    "chunks_too_small",
    Problem(
        400,
        f"the chunk sizes, extensions and trailers exceed the body by {HEAD_LIMIT:,} bytes: send larger chunks",
        kind="bad-request",
    ),
)
HEAD_TOO_SLOW = Refusal(
    "headers_too_slow",
    Problem(408, "the headers were not complete in time: send the request again", kind="headers-too-slow"),
)
BODY_TOO_SLOW = Refusal(
    "body_too_slow", Problem(408, "the body was not complete in time: send the request again", kind="body-too-slow")
)
TOO_MANY = Refusal(
    "too_many_connections",
    Problem(
        503,
        "too many connections to this server: send the request again after the time in Retry-After",
        kind="too-many-connections",
        headers={"Retry-After": RETRY_AFTER},
    ),
)
TOO_MANY_OF_ADDRESS = Refusal(
    "too_many_of_an_address",
    Problem(
        429,
        "too many connections from this address: close some, or send the request again after the time in Retry-After",
        kind="too-many-connections",
        headers={"Retry-After": RETRY_AFTER},
    ),
)
PIPELINED = Refusal("too_many_pipelined", None)
DISCARDING = Refusal("body_not_wanted", None)
UNREAD = Refusal("answer_not_read", None)
NO_DESCRIPTORS = Refusal("no_file_descriptors", None)
