"""Jira: X-Hub-Signature over the body."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from wakeful.connect.verifiers.proof import after_prefix, aliases_of, from_hexadecimal, require_signature, required
from wakeful.connect.verifiers.reading import label, moment, read_object, required_word, within
from wakeful.connect.verifiers.secrets import GivenSecret, Secrets
from wakeful.triggers.verifier import Delivered, Verifier, WebhookRequest

SIGNATURE = "X-Hub-Signature"


@dataclass(frozen=True, repr=False)
class Jira(Verifier):
    """The delivery id is not signed, nor any time outside the body: requests with the same signature are the same event, regardless
    of their headers.
    """

    name: ClassVar[str] = "jira"
    secrets: Secrets

    def open(self, where: str) -> None:
        self.secrets.open(f"{where}: {self.name}")

    def verify(self, request: WebhookRequest) -> None:
        require_signature([_signature(request)], self.secrets.as_keys(), request.body, name=SIGNATURE)

    def read(self, request: WebhookRequest) -> Delivered:
        data = read_object(request.body)
        stamp = data.get("timestamp")
        return Delivered(
            data,
            type=_type(required_word(data.get("webhookEvent"), "data.webhookEvent")),
            id=label(request.headers.get("x-atlassian-webhook-identifier")),
            subject=label(within(data, "issue", "key")) or label(within(data, "project", "key")),
            time=moment(stamp / 1_000) if type(stamp) is int else None,
            aliases=aliases_of(self.name, request, _signature),
        )

    def reads(self) -> tuple[str, ...]:
        return (SIGNATURE, "X-Atlassian-Webhook-Identifier")

    def describe(self) -> str:
        return f"jira(secret={self.secrets!r})"

    __repr__ = describe


def jira(secret: GivenSecret) -> Verifier:
    """Requests of a Jira webhook with a secret. Types are `jira.<what>.<happened>`: `jira:issue_updated` is
    `jira.issue.updated`, `comment_created` is `jira.comment.created`.
    """
    return Jira(Secrets.of(secret, where="jira"))


def _signature(request: WebhookRequest) -> bytes:
    return from_hexadecimal(after_prefix(required(request, SIGNATURE), "sha256=", SIGNATURE), SIGNATURE)


def _type(event: str) -> str:
    what, _, happened = event.removeprefix("jira:").rpartition("_")
    return f"jira.{what}.{happened}" if what else f"jira.{happened}"
