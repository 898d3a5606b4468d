"""Standard Webhooks (https://www.standardwebhooks.com), by which many senders sign, and Wakeful's own channel `http`.

webhook-id          the same at every try
webhook-timestamp   the second of this try
webhook-signature   "v1," + base64 over id "." timestamp "." body; several with spaces between, one for each secret
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from wakeful.clock import Duration, Microseconds, written
from wakeful.errors import ConfigError
from wakeful.signing import read_key, signed_content
from wakeful.verify.base import Delivered, Refused, Verifier, WebhookRequest
from wakeful.verify.proof import (
    MOST_SIGNATURES,
    TOLERANCE,
    from_base64,
    raw,
    read_tolerance,
    require_near,
    require_signature,
    required,
    seconds_of,
)
from wakeful.verify.reading import label, moment, read_object, word
from wakeful.verify.secrets import GivenSecret, Secrets

# Before there was a standard its headers were called so, and some senders stayed with it.
EARLIER = "svix"


@dataclass(frozen=True, repr=False)
class StandardWebhooks(Verifier):
    """Id, time and body are signed."""

    name: ClassVar[str] = "standard_webhooks"
    secrets: Secrets
    tolerance: Microseconds

    def open(self, where: str) -> None:
        where = f"{where}: {self.name}"
        for secret in self.secrets.open(where):
            read_key(secret, needed_by=where)

    def verify(self, request: WebhookRequest) -> None:
        require_standard_signature(request, keys_of(self.secrets.reveal()), self.tolerance)

    def read(self, request: WebhookRequest) -> Delivered:
        data = read_object(request.body)
        return Delivered(
            data,
            type=word(data.get("type")),
            id=label(request.headers.get(f"{prefix_of(request)}-id")),
            time=moment(data.get("timestamp")),
        )

    def describe(self) -> str:
        return f'standard_webhooks(secret={self.secrets!r}, tolerance="{written(self.tolerance)}")'

    __repr__ = describe


def standard_webhooks(secret: GivenSecret, *, tolerance: Duration = TOLERANCE) -> Verifier:
    """Requests signed by Standard Webhooks. The type of an event is the `type` in its body, as the sender has it; the id is
    `webhook-id`. The secret is `whsec_…`, or text.
    """
    secrets = Secrets.of(secret, where="standard_webhooks")
    for one in secrets.each:
        if isinstance(one, str):
            read_key(one, needed_by="standard_webhooks")
    return StandardWebhooks(secrets, read_tolerance(tolerance, where="standard_webhooks"))


def prefix_of(request: WebhookRequest) -> str:
    """How the names of the headers begin."""
    return EARLIER if "webhook-id" not in request.headers and f"{EARLIER}-id" in request.headers else "webhook"


def keys_of(secrets: Sequence[str]) -> list[bytes]:
    """The keys of the secrets as they are now."""
    try:
        return [read_key(secret, needed_by="standard_webhooks") for secret in secrets]
    except ConfigError as error:
        raise Refused(str(error)) from None


def require_standard_signature(request: WebhookRequest, keys: Sequence[bytes], tolerance: Microseconds) -> None:
    """Refused, unless one of the signatures fits one of the keys, and the time is near."""
    prefix = prefix_of(request)
    identifier, timestamp = f"{prefix}-id", f"{prefix}-timestamp"
    name = f"{prefix}-signature"
    given = _signatures(required(request, name), name)
    sent_at = required(request, timestamp)
    require_near(seconds_of(sent_at, timestamp), request, tolerance)
    content = signed_content(raw(required(request, identifier), identifier), raw(sent_at, timestamp), request.body)
    require_signature(given, keys, content, name=name)


def _signatures(value: str, name: str) -> list[bytes]:
    """Those with a shared secret, v1; a sender may sign in other ways as well."""
    texts = [text for version, _, text in (part.partition(",") for part in value.split(" ")) if version == "v1"]
    if not 0 < len(texts) <= MOST_SIGNATURES:
        message = f"{name} holds no signature of the version v1"
        raise Refused(message)
    return [from_base64(text, name) for text in texts]
