"""Standard Webhooks (https://www.standardwebhooks.com), by which many senders sign, and Wakeful's own channel `http`.

webhook-id          the same at every try
webhook-timestamp   the second of this try
webhook-signature   "v1," + base64 over id "." timestamp "." body; several with spaces between, one for each secret;
                    "v1a," with a pair of keys instead
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

# Before there was a standard its headers were called so, and some senders stayed with it.
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
    """Requests signed by Standard Webhooks. The type of an event is the `type` in its body, as the sender has it; the id is
    `webhook-id`. The secret is `whsec_…`, or text; or the public key of a sender that has a pair of keys, `whpk_…`.
    """
    secrets = Secrets.of(secret, where="standard_webhooks")
    for one in secrets.each:
        if isinstance(one, str):
            read_either(one, needed_by="standard_webhooks")
    return StandardWebhooks(secrets, read_tolerance(tolerance, where="standard_webhooks"))


def prefix_of(request: WebhookRequest) -> str:
    """How the names of the headers begin."""
    return EARLIER if "webhook-id" not in request.headers and f"{EARLIER}-id" in request.headers else "webhook"


def read_either(secret: str, *, needed_by: str = "standard_webhooks") -> bytes:
    """The bytes of a public key, or of a shared one."""
    read = read_public_key if secret.startswith(PUBLIC) else read_key
    return read(secret, needed_by=needed_by)


def require_standard_signature(
    request: WebhookRequest, secrets: Sequence[str], tolerance: Microseconds, *, prefix: str = "webhook"
) -> None:
    """Refused, unless one of the signatures fits one of the secrets, and the time is near. `prefix`: of the headers that are
    signed, which must be those that the id is read from.
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
    """By version: v1 with a shared secret, v1a with a pair of keys. A sender may sign in other ways as well."""
    found: dict[str, list[bytes]] = {"v1": [], "v1a": []}
    for version, _, text in (part.partition(",") for part in value.split(" ")):
        if version in found:
            found[version].append(from_base64(text, name))
    if not 0 < sum(map(len, found.values())) <= MOST_SIGNATURES:
        message = f"{name} holds no signature of the version v1 or v1a, or too many"
        raise Refused(message)
    return found
