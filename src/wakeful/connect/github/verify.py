"""GitHub: X-Hub-Signature-256 over the body."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from wakeful.connect.verifiers.proof import after_prefix, aliases_of, from_hexadecimal, require_signature, required
from wakeful.connect.verifiers.reading import is_form, label, read_form, read_object, required_word, within, word
from wakeful.connect.verifiers.secrets import GivenSecret, Secrets
from wakeful.errors import InvalidEvent
from wakeful.triggers.verifier import Delivered, Verifier, WebhookRequest

SIGNATURE = "X-Hub-Signature-256"
_NUMBERED = ("pull_request", "issue", "discussion")


@dataclass(frozen=True, repr=False)
class GitHub(Verifier):
    """Neither the delivery id nor a time is signed, so an attacker with a captured request could send it again under another id.
    Therefore requests with the same signature are the same event, regardless of their headers.
    """

    name: ClassVar[str] = "github"
    secrets: Secrets

    def open(self, where: str) -> None:
        self.secrets.open(f"{where}: {self.name}")

    def verify(self, request: WebhookRequest) -> None:
        require_signature([_signature(request)], self.secrets.as_keys(), request.body, name=SIGNATURE)

    def read(self, request: WebhookRequest) -> Delivered:
        event = required_word(request.headers.get("x-github-event"), "X-GitHub-Event")
        data = _payload(request)
        action = word(data.get("action"))
        return Delivered(
            data,
            type=f"github.{event}.{action}" if action else f"github.{event}",
            id=label(request.headers.get("x-github-delivery")),
            subject=_subject(data),
            aliases=aliases_of(self.name, request, _signature),
        )

    def reads(self) -> tuple[str, ...]:
        return (SIGNATURE, "X-GitHub-Event", "X-GitHub-Delivery")

    def describe(self) -> str:
        return f"github(secret={self.secrets!r})"

    __repr__ = describe


def github(secret: GivenSecret) -> Verifier:
    """Requests of a GitHub webhook or app with a secret. Types are `github.<event>.<action>`, like
    `github.pull_request.opened`, or `github.<event>`, like `github.push`.
    """
    return GitHub(Secrets.of(secret, where="github"))


def _signature(request: WebhookRequest) -> bytes:
    return from_hexadecimal(after_prefix(required(request, SIGNATURE), "sha256=", SIGNATURE), SIGNATURE)


def _payload(request: WebhookRequest) -> dict[str, Any]:
    """The body as JSON, or as the form that a webhook sends unless its content type is set to application/json."""
    if not is_form(request):
        return read_object(request.body)
    payload = read_form(request.body).get("payload")
    if type(payload) is not str:
        message = "data is a form without a payload: choose application/json in the webhook's settings"
        raise InvalidEvent(message, field="data")
    return read_object(payload.encode())


def _subject(data: dict[str, Any]) -> str | None:
    """octo/shop#7, octo/shop, or the organisation."""
    place = label(within(data, "repository", "full_name")) or label(within(data, "organization", "login"))
    number = label(data.get("number")) or next(
        (found for part in _NUMBERED if (found := label(within(data, part, "number")))), None
    )
    return label(f"{place}#{number}") if place and number else place
