"""Reads the body of a request up to a limit.

A declared length over the limit is refused before anything is read; a stream is refused as soon as it exceeds the limit. The
connection is closed after that: to keep it, the server would have to read the rest only to drop it.
"""

from __future__ import annotations

from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive

from wakeful.http.problem import Problem

BODY_LIMIT = 1024 * 1024


async def read_body(declared: str | None, receive: Receive, *, limit: int = BODY_LIMIT) -> bytes:
    """The whole body. `declared` is the Content-Length header, None if there is none."""
    if declared is not None:
        # The server checks the header itself; int() would also accept "1_0" and "+5".
        if not (declared.isascii() and declared.isdigit()):
            raise Problem(400, "Content-Length is not a number of bytes", kind="bad-request", field="Content-Length")
        if len(declared) > 18 or int(declared) > limit:
            raise _too_large(limit)
    message = await receive()
    body: bytes = _part(message)
    if not message.get("more_body", False):
        if len(body) > limit:
            raise _too_large(limit)
        return body
    parts = [body]
    size = len(body)
    while size <= limit:
        message = await receive()
        body = _part(message)
        parts.append(body)
        size += len(body)
        if size <= limit and not message.get("more_body", False):
            return b"".join(parts)
    raise _too_large(limit)


def _part(message: Message) -> bytes:
    if message["type"] == "http.disconnect":
        raise ClientDisconnect
    part: bytes = message.get("body", b"")
    return part


def _too_large(limit: int) -> Problem:
    return Problem(
        413,
        f"the body exceeds the limit of {limit:,} bytes: send less, or store the large part elsewhere and send its address",
        kind="body-too-large",
        title="The body is too large",
        headers={"Connection": "close"},
    )
