"""Stripe: Stripe-Signature, with the time and one signature for each currently valid secret.

Stripe-Signature: t=1492774577,v1=5257a869…,v1=…,v0=…        HMAC-SHA256 over t "." body, in hexadecimal
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from wakeful.clock import Duration, Microseconds, written
from wakeful.connect.verifiers.proof import (
    MOST_SIGNATURES,
    TOLERANCE,
    from_hexadecimal,
    raw,
    read_tolerance,
    require_near,
    require_signature,
    required,
    seconds_of,
)
from wakeful.connect.verifiers.reading import label, moment, read_object, required_word, within
from wakeful.connect.verifiers.secrets import GivenSecret, Secrets
from wakeful.triggers.verifier import Delivered, Refused, Verifier, WebhookRequest

SIGNATURE = "Stripe-Signature"


@dataclass(frozen=True, repr=False)
class Stripe(Verifier):
    """The body with the event's id is signed, and the time of the attempt."""

    name: ClassVar[str] = "stripe"
    secrets: Secrets
    tolerance: Microseconds

    def open(self, where: str) -> None:
        self.secrets.open(f"{where}: {self.name}")

    def verify(self, request: WebhookRequest) -> None:
        timestamp, signatures = _parts(required(request, SIGNATURE))
        require_near(seconds_of(timestamp, SIGNATURE), request, self.tolerance)
        content = raw(timestamp, SIGNATURE) + b"." + request.body
        require_signature(signatures, self.secrets.as_keys(), content, name=SIGNATURE)

    def read(self, request: WebhookRequest) -> Delivered:
        data = read_object(request.body)
        kind = required_word(data.get("type"), "data.type")
        return Delivered(
            data,
            type=f"stripe.{kind}",
            id=label(data.get("id")),
            subject=label(within(data, "data", "object", "id")) or label(within(data, "related_object", "id")),
            time=moment(data.get("created")),
        )

    def reads(self) -> tuple[str, ...]:
        return (SIGNATURE,)

    def describe(self) -> str:
        return f'stripe(secret={self.secrets!r}, tolerance="{written(self.tolerance)}")'

    __repr__ = describe


def stripe(secret: GivenSecret, *, tolerance: Duration = TOLERANCE) -> Verifier:
    """Requests of a Stripe event destination. Types are `stripe.<type>`, like `stripe.payment_intent.succeeded`. The secret is
    the endpoint's own, `whsec_…`.
    """
    return Stripe(Secrets.of(secret, where="stripe"), read_tolerance(tolerance, where="stripe"))


def _parts(value: str) -> tuple[str, list[bytes]]:
    """The time and the signatures of scheme v1. Other schemes are for Stripe's own tests."""
    pairs = [part.partition("=") for part in value.split(",")]
    timestamps = [text for name, _, text in pairs if name.strip() == "t"]
    signatures = [text for name, _, text in pairs if name.strip() == "v1"]
    if len(timestamps) != 1 or not 0 < len(signatures) <= MOST_SIGNATURES:
        message = f"{SIGNATURE} does not contain one time (t=) and a signature (v1=)"
        raise Refused(message)
    return timestamps[0], [from_hexadecimal(text, SIGNATURE) for text in signatures]
