"""Standard Webhooks (https://www.standardwebhooks.com), used by many senders and by Wakeful's own channel `http`.

webhook-id          the same for every attempt
webhook-timestamp   time of this attempt, in seconds
webhook-signature   "v1," + base64 over id "." timestamp "." body; several separated by spaces, one for each secret;
                    "v1a," for a key pair
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from wakeful.clock import Duration, Microseconds, written
from wakeful.connect.verifiers.proof import (
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
from wakeful.connect.verifiers.public_keys import PREFIX as PUBLIC
from wakeful.connect.verifiers.public_keys import fits, read_public_key
from wakeful.connect.verifiers.reading import label, moment, read_object, word
from wakeful.connect.verifiers.secrets import GivenSecret, Secrets
from wakeful.signing import read_key, signed_content
from wakeful.triggers.verifier import Delivered, Refused, Verifier, WebhookRequest

# The header prefix before there was a standard; some senders still use it.
EARLIER = "svix"
STANDARD_HEADERS = ("webhook-id", "webhook-timestamp", "webhook-signature")


@dataclass(frozen=True, repr=False)
class StandardWebhooks(Verifier):
    """Id, time and body are signed."""

    name: ClassVar[str] = "standard_webhooks"
    secrets: Secrets
    tolerance: Microseconds

    def open(self, where: str) -> None:
        where = f"{where}: {self.name}"
        for secret in self.secrets.open(where):
            read_either(secret, needed_by=where)

    def verify(self, request: WebhookRequest) -> None:
        require_standard_signature(request, self.secrets.reveal(), self.tolerance, prefix=prefix_of(request))

    def read(self, request: WebhookRequest) -> Delivered:
        data = read_object(request.body)
        return Delivered(
            data,
            type=word(data.get("type")),
            id=label(request.headers.get(f"{prefix_of(request)}-id")),
            time=moment(data.get("timestamp")),
        )

    def reads(self) -> tuple[str, ...]:
        return (*STANDARD_HEADERS, *(name.replace("webhook", EARLIER) for name in STANDARD_HEADERS))

    def describe(self) -> str:
        return f'standard_webhooks(secret={self.secrets!r}, tolerance="{written(self.tolerance)}")'

    __repr__ = describe


def standard_webhooks(secret: GivenSecret, *, tolerance: Duration = TOLERANCE) -> Verifier:
    """Requests signed by Standard Webhooks. The event type is the `type` in the body; the id is `webhook-id`. The secret is
    `whsec_…` or text; for a sender with a key pair, its public key `whpk_…`.
    """
    secrets = Secrets.of(secret, where="standard_webhooks")
    for one in secrets.each:
        if isinstance(one, str):
            read_either(one, needed_by="standard_webhooks")
    return StandardWebhooks(secrets, read_tolerance(tolerance, where="standard_webhooks"))


def prefix_of(request: WebhookRequest) -> str:
    """The prefix of the header names."""
    return EARLIER if "webhook-id" not in request.headers and f"{EARLIER}-id" in request.headers else "webhook"


def read_either(secret: str, *, needed_by: str = "standard_webhooks") -> bytes:
    """The bytes of a public key or of a shared secret."""
    read = read_public_key if secret.startswith(PUBLIC) else read_key
    return read(secret, needed_by=needed_by)


def require_standard_signature(
    request: WebhookRequest, secrets: Sequence[str], tolerance: Microseconds, *, prefix: str = "webhook"
) -> None:
    """Raise Refused unless one of the signatures matches one of the secrets and the time is near. `prefix`: of the signed headers,
    which must be the ones that the id is read from.
    """
    identifier, timestamp = f"{prefix}-id", f"{prefix}-timestamp"
    name = f"{prefix}-signature"
    signatures = _signatures(required(request, name), name)
    sent_at = required(request, timestamp)
    require_near(seconds_of(sent_at, timestamp), request, tolerance)
    content = signed_content(raw(required(request, identifier), identifier), raw(sent_at, timestamp), request.body)
    public = [read_either(secret) for secret in secrets if secret.startswith(PUBLIC)]
    if any(fits(key, one, content) for key in public for one in signatures["v1a"]):
        return
    shared = [read_either(secret) for secret in secrets if not secret.startswith(PUBLIC)]
    require_signature(signatures["v1"], shared, content, name=name)


def _signatures(value: str, name: str) -> dict[str, list[bytes]]:
    """Signatures by version: v1 with a shared secret, v1a with a key pair. Other versions are ignored."""
    found: dict[str, list[bytes]] = {"v1": [], "v1a": []}
    for version, _, text in (part.partition(",") for part in value.split(" ")):
        if version in found:
            found[version].append(from_base64(text, name))
    if not 0 < sum(map(len, found.values())) <= MOST_SIGNATURES:
        message = f"{name} contains no v1 or v1a signature, or too many"
        raise Refused(message)
    return found
