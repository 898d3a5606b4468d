"""PagerDuty, webhooks of version 3: X-PagerDuty-Signature over the body, one signature for each currently valid secret."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from wakeful.connect.verifiers.proof import MOST_SIGNATURES, from_hexadecimal, require_signature, required
from wakeful.connect.verifiers.reading import label, moment, read_object, required_word, within
from wakeful.connect.verifiers.secrets import GivenSecret, Secrets
from wakeful.triggers.verifier import Delivered, Refused, Verifier, WebhookRequest

SIGNATURE = "X-PagerDuty-Signature"


@dataclass(frozen=True, repr=False)
class PagerDuty(Verifier):
    """The body with the event's id is signed; the time of the attempt is not: a replayed request has the id of the original event."""

    name: ClassVar[str] = "pagerduty"
    secrets: Secrets

    def open(self, where: str) -> None:
        self.secrets.open(f"{where}: {self.name}")

    def verify(self, request: WebhookRequest) -> None:
        pairs = [part.strip().partition("=") for part in required(request, SIGNATURE).split(",")]
        texts = [text for version, _, text in pairs if version == "v1"]
        if not 0 < len(texts) <= MOST_SIGNATURES:
            message = f"{SIGNATURE} contains no v1 signature, or too many"
            raise Refused(message)
        given = [from_hexadecimal(text, SIGNATURE) for text in texts]
        require_signature(given, self.secrets.as_keys(), request.body, name=SIGNATURE)

    def read(self, request: WebhookRequest) -> Delivered:
        data = read_object(request.body)
        event = data.get("event")
        return Delivered(
            data,
            type=f"pagerduty.{required_word(within(event, 'event_type'), 'data.event.event_type')}",
            id=label(within(event, "id")),
            # A note or a responder belongs to an incident.
            subject=label(within(event, "data", "incident", "id")) or label(within(event, "data", "id")),
            time=moment(within(event, "occurred_at")),
        )

    def reads(self) -> tuple[str, ...]:
        return (SIGNATURE,)

    def describe(self) -> str:
        return f"pagerduty(secret={self.secrets!r})"

    __repr__ = describe


def pagerduty(secret: GivenSecret) -> Verifier:
    """Requests of a PagerDuty webhook subscription. Types are `pagerduty.<event type>`, like `pagerduty.incident.triggered`."""
    return PagerDuty(Secrets.of(secret, where="pagerduty"))
