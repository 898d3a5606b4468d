"""`POST /v1/events` accepts events. `resources.events` lists and shows them."""

from __future__ import annotations

from hashlib import blake2b

from pydantic_core import to_json
from starlette.requests import ClientDisconnect
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from wakeful.api.ports import DoorPort, ResultsPort
from wakeful.api.waiting import answer_with_outputs, read_wait_alone
from wakeful.http.body import BODY_LIMIT, read_body
from wakeful.http.problem import Problem
from wakeful.intake.cloudevents import parse_request
from wakeful.redaction import redact_bytes

IDEMPOTENCY_KEY_LIMIT = 255


class Events:
    """/v1/events. Plain ASGI, because this is the hot path: a Request object per event would cost more than parsing it."""

    def __init__(self, door: DoorPort, body_limit: int = BODY_LIMIT, results: ResultsPort | None = None) -> None:
        self._door = door
        self._results = results
        self._body_limit = body_limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        if headers.get("content-encoding", "identity").lower() != "identity":
            detail = "the body is compressed: send it without Content-Encoding"
            raise Problem(415, detail, kind="unsupported-content-type", field="Content-Encoding")
        wait = read_wait_alone(scope["query_string"]) if scope["query_string"] else None
        try:
            body = await read_body(headers.get("content-length"), receive, limit=self._body_limit)
        except ClientDisconnect:
            return  # the client disconnected; nothing was accepted
        events = parse_request(headers, body)
        key = headers.get("idempotency-key")
        idempotency = None if key is None else (_checked(key), _digest_of_request(headers, body))
        receipts = await self._door.accept(events, idempotency=idempotency)
        if wait is None:
            status, shown = 202, {"events": [receipt.to_json() for receipt in receipts]}
        else:
            status, shown = await answer_with_outputs(receipts, self._results, wait)
        answer = to_json(shown, inf_nan_mode="null")
        if wait is not None:  # receipts without outputs contain only ids
            answer = redact_bytes(answer)
        length = str(len(answer)).encode()
        start = [(b"content-type", b"application/json"), (b"content-length", length)]
        await send({"type": "http.response.start", "status": status, "headers": start})
        await send({"type": "http.response.body", "body": answer})


def event_routes(door: DoorPort, body_limit: int = BODY_LIMIT, results: ResultsPort | None = None) -> list[Route]:
    return [Route("/v1/events", Events(door, body_limit, results), methods=["POST"], name="events")]


def _checked(key: str) -> str:
    """A valid Idempotency-Key. The draft standard makes it a quoted string; most clients send it bare. Both mean the
    same key.
    """
    text = key[1:-1] if len(key) > 1 and key[0] == key[-1] == '"' else key
    if not text or len(text) > IDEMPOTENCY_KEY_LIMIT or not (text.isascii() and text.isprintable()):
        detail = f"Idempotency-Key must be 1 to {IDEMPOTENCY_KEY_LIMIT} printable ASCII characters, for example a UUID"
        raise Problem(400, detail, kind="bad-idempotency-key", field="Idempotency-Key")
    return text


def _digest_of_request(headers: dict[str, str], body: bytes) -> str:
    """The identity of a request: its body, and the headers that are part of the events."""
    hasher = blake2b(digest_size=16)
    for name in sorted(headers):
        if name == "content-type" or name.startswith("ce-"):
            hasher.update(f"{name}:{headers[name]}\n".encode())
    hasher.update(b"\n")
    hasher.update(body)
    return hasher.hexdigest()
