"""GitLab: a signing token (Standard Webhooks), or the older secret token, which is sent in clear."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from wakeful.clock import Duration, Microseconds, written
from wakeful.connect.standard_webhooks.verify import STANDARD_HEADERS, require_standard_signature
from wakeful.connect.verifiers.proof import TOLERANCE, raw, read_tolerance, require_equal, required
from wakeful.connect.verifiers.reading import label, read_object, required_word, within, word
from wakeful.connect.verifiers.secrets import GivenSecret, Secrets, key_of
from wakeful.model import digest
from wakeful.signing import PREFIX, read_key
from wakeful.triggers.verifier import Delivered, Refused, Verifier, WebhookRequest

TOKEN = "X-Gitlab-Token"  # noqa: S105 the name of a header
SIGNS = {"merge_request": "!", "issue": "#", "work_item": "#"}


@dataclass(frozen=True, repr=False)
class GitLab(Verifier):
    """A signing token (`whsec_…`) signs id, time and body. A secret token proves only who the sender is."""

    name: ClassVar[str] = "gitlab"
    secrets: Secrets
    tolerance: Microseconds

    def open(self, where: str) -> None:
        where = f"{where}: {self.name}"
        for secret in self.secrets.open(where):
            read_key(secret, needed_by=where)

    def verify(self, request: WebhookRequest) -> None:
        secrets = self.secrets.reveal()
        signing = [secret for secret in secrets if secret.startswith(PREFIX)]
        plain = [key_of(secret) for secret in secrets if not secret.startswith(PREFIX)]
        if signing and ("webhook-signature" in request.headers or not plain):
            try:
                require_standard_signature(request, signing, self.tolerance)
            except Refused:
                # While a webhook migrates to a signing token that is not configured here yet, both tokens may be sent.
                if not plain or TOKEN.lower() not in request.headers:
                    raise
            else:
                return
        require_equal(raw(required(request, TOKEN), TOKEN), plain, what=f"the token in {TOKEN}")

    def read(self, request: WebhookRequest) -> Delivered:
        data = read_object(request.body)
        kind = required_word(data.get("object_kind") or data.get("event_name"), "data.object_kind")
        happened = _happened(data)
        return Delivered(
            data,
            type=f"gitlab.{kind}.{happened}" if happened else f"gitlab.{kind}",
            id=_identity(request),
            subject=_subject(kind, data),
        )

    def reads(self) -> tuple[str, ...]:
        return (TOKEN, *STANDARD_HEADERS, "Idempotency-Key", "X-Gitlab-Event-UUID")

    def describe(self) -> str:
        return f'gitlab(secret={self.secrets!r}, tolerance="{written(self.tolerance)}")'

    __repr__ = describe


def gitlab(secret: GivenSecret, *, tolerance: Duration = TOLERANCE) -> Verifier:
    """Requests of a GitLab webhook. Types are `gitlab.<kind>.<action>`, like `gitlab.merge_request.open`; with the status if there
    is no action (`gitlab.pipeline.failed`); or `gitlab.<kind>`, like `gitlab.push`. A secret that begins with `whsec_` is a
    signing token; any other is a secret token, with which neither id nor body nor time is signed.
    """
    secrets = Secrets.of(secret, where="gitlab")
    for one in secrets.each:
        if isinstance(one, str):
            read_key(one, needed_by="gitlab")
    return GitLab(secrets, read_tolerance(tolerance, where="gitlab"))


def _identity(request: WebhookRequest) -> str | None:
    """An id that stays the same for every attempt. Versions before 17.4 send only the id of the original change, which several
    requests may share; together with the body it is an identity.
    """
    headers = request.headers
    found = label(headers.get("webhook-id")) or label(headers.get("idempotency-key"))
    if found is None and (event := label(headers.get("x-gitlab-event-uuid"))):
        return digest(event, request.body.hex())
    return found


def _happened(data: dict[str, Any]) -> str | None:
    attributes = data.get("object_attributes")
    return (
        word(within(attributes, "action"))
        or word(within(attributes, "status"))
        or word(data.get("action"))
        or word(data.get("build_status"))
        or word(data.get("status"))
    )


def _subject(kind: str, data: dict[str, Any]) -> str | None:
    """group/project!7, group/project#3, or the project."""
    project = label(within(data, "project", "path_with_namespace")) or label(data.get("path_with_namespace"))
    number = label(within(data, "object_attributes", "iid"))
    if project and number and kind in SIGNS:
        return label(f"{project}{SIGNS[kind]}{number}")
    return project
