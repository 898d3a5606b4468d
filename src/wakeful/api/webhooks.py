"""Webhooks: POST to the paths that the app declares. Answers after the commit, as POST /v1/events does.

    401   not verified; the sender is not told the reason
    405   a method other than POST                408   the body was not complete in time
    413   the body exceeds the endpoint's limit   415   the body is compressed: signatures cover the bytes as sent
    429   faster than the endpoint's rate         503   the store or a secret is unavailable

Plain ASGI, and found by one table lookup: this is a hot path too.
"""

from __future__ import annotations

import asyncio
import math

from pydantic_core import to_json
from starlette.datastructures import URLPath
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import BaseRoute, Match, NoMatchFound
from starlette.types import Receive, Scope, Send

from wakeful.api.ports import WebhooksPort
from wakeful.http.body import read_body
from wakeful.http.problem import RETRY_AFTER, Problem
from wakeful.http.security import path_of
from wakeful.model import Receipt
from wakeful.triggers.endpoint import Endpoint
from wakeful.triggers.verifier import Answer, Refused
from wakeful.triggers.webhooks import CannotVerify, TooFast

# Anyone may call: a client that sends one byte now and then must not occupy memory forever.
BODY_WITHIN = 60.0


class WebhookRoute(BaseRoute):
    """All webhooks of an app as one route, so that a hundred cost no more than one."""

    def __init__(self, webhooks: WebhooksPort) -> None:
        self._webhooks = webhooks

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        if scope["type"] == "http" and path_of(scope) in self._webhooks.endpoints:
            return Match.FULL, {}
        return Match.NONE, {}

    def url_path_for(self, name: str, /, **path_params: object) -> URLPath:
        raise NoMatchFound(name, path_params)

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        endpoint = self._webhooks.endpoints[path_of(scope)]
        if scope["method"] != "POST":
            raise HTTPException(405, headers={"Allow": "POST"})
        try:
            answer = await self._take(endpoint, scope, receive)
        except ClientDisconnect:
            return  # the client disconnected; nothing was accepted
        if isinstance(answer, Answer):
            status, kind, body = 200, answer.content_type.encode("latin-1", "replace"), answer.body
        else:
            status, kind, body = 202, b"application/json", to_json({"events": [one.to_json() for one in answer]})
        start = [(b"content-type", kind), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": status, "headers": start})
        await send({"type": "http.response.body", "body": body})

    async def _take(self, endpoint: Endpoint, scope: Scope, receive: Receive) -> list[Receipt] | Answer:
        headers = headers_of(scope)
        try:
            self._webhooks.refuse_flood(endpoint)
            if headers.get("content-encoding", "identity").lower() != "identity":
                detail = "the body is compressed: send it without Content-Encoding"
                raise Problem(415, detail, kind="unsupported-content-type", field="Content-Encoding")
            body = await self._body(endpoint, headers.get("content-length"), receive)
            return await self._webhooks.take(endpoint, headers, body, scope["query_string"].decode("latin-1"))
        except TooFast as fast:
            raise too_fast(fast) from None
        except Refused:
            raise not_verified() from None
        except CannotVerify:
            detail = "this server cannot verify requests now: send it again later"
            raise Problem(503, detail, kind="cannot-verify", headers={"Retry-After": RETRY_AFTER}) from None
        except Problem:
            self._webhooks.refuse(endpoint)
            raise

    async def _body(self, endpoint: Endpoint, declared: str | None, receive: Receive) -> bytes:
        try:
            async with asyncio.timeout(BODY_WITHIN):
                return await read_body(declared, receive, limit=endpoint.body_limit)
        except TimeoutError:
            detail = f"the body was not complete within {BODY_WITHIN:g} seconds: send it again"
            raise Problem(408, detail, kind="body-too-slow", headers={"Connection": "close"}) from None


def headers_of(scope: Scope) -> dict[str, str]:
    """The headers by name. Repeated ones are joined, which invalidates them as a signature, token or id."""
    headers: dict[str, str] = {}
    for name, value in scope["headers"]:
        key = name.decode("latin-1")
        text = value.decode("latin-1")
        headers[key] = text if key not in headers else f"{headers[key]}, {text}"
    return headers


def webhook_routes(webhooks: WebhooksPort) -> list[BaseRoute]:
    return [WebhookRoute(webhooks)]


def too_fast(fast: TooFast) -> Problem:
    return Problem(
        429,
        "too many requests to this webhook: send it again after the time in Retry-After",
        kind="too-fast",
        title="Too fast",
        headers={"Retry-After": str(max(1, math.ceil(fast.wait))), "Connection": "close"},
    )


def not_verified() -> Problem:
    """The same words for a wrong signature, a stale one and a missing one."""
    return Problem(
        401,
        "the request could not be verified; the operator of this server can see why",
        kind="not-verified",
        title="The request could not be verified",
    )
