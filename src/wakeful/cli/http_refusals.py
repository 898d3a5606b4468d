"""Answers of the HTTP server itself, to requests that never reach the app. They are made once, when the server starts."""

from __future__ import annotations

from dataclasses import dataclass, field
from http import HTTPStatus

from wakeful.cli.http_limits import HEAD_LIMIT, HEADERS_LIMIT
from wakeful.http.problem import Problem

RETRY_AFTER = "5"  # seconds: by then the connections that hold no work are gone, or nearly


@dataclass(frozen=True, slots=True)
class Refusal:
    """What the client is told, and the name under which the log counts it."""

    name: str
    problem: Problem | None
    """None: the connection is closed without a word, because no answer is owed, or none can be read."""
    answer: bytes = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "answer", b"" if self.problem is None else _written(self.problem))


def _written(problem: Problem) -> bytes:
    problem.headers["Connection"] = "close"
    response = problem.response()
    lines = [f"HTTP/1.1 {problem.status} {HTTPStatus(problem.status).phrase}".encode()]
    lines += [name + b": " + value for name, value in response.raw_headers]
    return b"\r\n".join([*lines, b"", bytes(response.body)])


NOT_HTTP = Refusal("not_http", Problem(400, "this is not a request in HTTP/1.1", kind="bad-request"))
HEAD_TOO_LARGE = Refusal(
    "headers_too_large",
    Problem(
        431,
        f"the request line and the headers have more than {HEAD_LIMIT:,} bytes, or there are more than {HEADERS_LIMIT} headers: "
        "send what is large in the body",
        kind="headers-too-large",
    ),
)
WRAPPING_TOO_LARGE = Refusal(
    "chunks_too_small",
    Problem(
        400,
        f"the chunks of the body carry {HEAD_LIMIT:,} bytes more of sizes, extensions and trailers than of body: send larger chunks",
        kind="bad-request",
    ),
)
HEAD_TOO_SLOW = Refusal(
    "headers_too_slow",
    Problem(408, "the headers did not come to their end in time: send the request again", kind="headers-too-slow"),
)
BODY_TOO_SLOW = Refusal(
    "body_too_slow",
    Problem(408, "the body did not come to its end in time: send the request again", kind="body-too-slow"),
)
TOO_MANY = Refusal(
    "too_many_connections",
    Problem(
        503,
        "this server has as many connections as it takes: send the request again after the time in Retry-After",
        kind="too-many-connections",
        headers={"Retry-After": RETRY_AFTER},
    ),
)
TOO_MANY_OF_ADDRESS = Refusal(
    "too_many_of_an_address",
    Problem(
        429,
        "this server has as many connections from this address as it takes: close some, or send the request again after the time in "
        "Retry-After",
        kind="too-many-connections",
        headers={"Retry-After": RETRY_AFTER},
    ),
)
PIPELINED = Refusal("too_many_pipelined", None)
DISCARDING = Refusal("body_not_wanted", None)
UNREAD = Refusal("answer_not_read", None)
NO_DESCRIPTORS = Refusal("no_file_descriptors", None)
