"""A sender of webhooks, and the verifiers that know it: made up, with everything that real senders have."""

from __future__ import annotations

import hashlib
import hmac
import json
from dataclasses import dataclass
from typing import Any, ClassVar

from wakeful.clock import SECOND, Microseconds
from wakeful.errors import InvalidEvent
from wakeful.intake.untrusted import DEPTH_LIMIT, read_json
from wakeful.secrets import Secret, reveal
from wakeful.verify import Challenge, Delivered, Refused, Verifier, WebhookRequest

TOLERANCE = 300 * SECOND


def signature(secret: str, body: bytes, at: Microseconds | None = None) -> str:
    signed = body if at is None else f"{at}.".encode() + body
    return hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()


@dataclass(frozen=True)
class Signed(Verifier):
    """Signs the body and neither its id nor a time: known again by its signature. Asks a question first."""

    name: ClassVar[str] = "signed"
    secret: Secret = "secret"

    def open(self, where: str) -> None:
        reveal(self.secret, needed_by=where)

    def verify(self, request: WebhookRequest) -> None:
        wanted = signature(reveal(self.secret, needed_by=self.name), request.body)
        if not hmac.compare_digest(wanted.encode(), request.headers.get("x-signature", "").encode()):
            message = "X-Signature is not that of the body"
            raise Refused(message)

    def challenge(self, request: WebhookRequest) -> Challenge | None:
        return Challenge(request.body[4:]) if request.body.startswith(b"ask:") else None

    def read(self, request: WebhookRequest) -> Delivered:
        data = read_json(request.body, depth=DEPTH_LIMIT, inside=("data",))
        kind = request.headers.get("x-event")
        return Delivered(
            data,
            type=None if kind is None else f"signed.{kind}",
            id=request.headers.get("x-delivery"),
            aliases=(request.headers["x-signature"],),
        )

    def reads(self) -> tuple[str, ...]:
        return ("X-Signature", "X-At", "X-Event", "X-Delivery")

    def describe(self) -> str:
        return "signed(…)"


@dataclass(frozen=True)
class Timed(Signed):
    """Signs a time too: what is too old is refused."""

    name: ClassVar[str] = "timed"

    def verify(self, request: WebhookRequest) -> None:
        at = request.headers.get("x-at", "")
        if not at.isdigit() or not hmac.compare_digest(
            signature(str(self.secret), request.body, int(at)).encode(), request.headers.get("x-signature", "").encode()
        ):
            message = "X-Signature is not that of the time and the body"
            raise Refused(message)
        if abs(request.received_at - int(at)) > TOLERANCE:
            message = "the request is too old"
            raise Refused(message)


@dataclass(frozen=True)
class Anybody(Verifier):
    """Lets everybody in, and reads whatever it is."""

    name: ClassVar[str] = "anybody"

    def open(self, where: str) -> None:
        pass

    def verify(self, request: WebhookRequest) -> None:
        pass

    def read(self, request: WebhookRequest) -> Delivered:
        if request.body == b"burn":
            raise KeyError("burn")
        try:
            return Delivered(json.loads(request.body), id=request.headers.get("x-delivery"))
        except ValueError as error:
            raise InvalidEvent(str(error), field="body") from None

    def describe(self) -> str:
        return "anybody()"


def delivery(
    data: Any,
    *,
    kind: str | None = "opened",
    id: str | None = "1",  # noqa: A002 the field's own name
    secret: str = "secret",
) -> tuple[bytes, dict[str, str]]:
    """A body and its headers, as the sender that `Signed` knows sends it."""
    body = data if isinstance(data, bytes) else json.dumps(data).encode()
    headers = {"x-signature": signature(secret, body), "content-type": "application/json"}
    if kind is not None:
        headers["x-event"] = kind
    if id is not None:
        headers["x-delivery"] = id
    return body, headers
