"""The verifier contract: a verifier checks that a request really is from its sender, and reads the event in it.

    request (raw bytes) ──► verify ──► challenge? ──► read ──► Delivered: type, id, subject, time, data, aliases
                              └─ Refused: 401, counted, kept in quarantine

Verifiers work on the bytes as received, compare secrets in constant time, and do no I/O. Secrets are resolved at each use
(`env(…)`), several of them for rotation. `open` resolves them once at start, so that a missing secret is reported then.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar

from wakeful.clock import Microseconds
from wakeful.errors import WakefulError

# The verifiers of wakeful.verify, for messages: this module must not import them.
VERIFIERS = (
    "alertmanager",
    "basic",
    "bearer",
    "github",
    "gitlab",
    "hmac",
    "jira",
    "none",
    "pagerduty",
    "shopify",
    "slack",
    "standard_webhooks",
    "stripe",
)


class Refused(WakefulError):
    """The request is not proven to come from its sender, or is too old. The sender gets only 401; the reason is kept for the
    owner and contains no secret.
    """


@dataclass(frozen=True, slots=True)
class WebhookRequest:
    """A request as received. Header names are in lower case, values are decoded as Latin-1. A header that came several times is
    joined by ", " in order, so it is no longer a valid signature, token or id.
    """

    path: str
    headers: Mapping[str, str]
    body: bytes
    received_at: Microseconds
    query: str = ""
    method: str = "POST"


@dataclass(slots=True)
class Delivered:
    """The content of a request, in CloudEvents terms. `None` means that the sender does not say; the webhook's options or
    defaults apply then. `aliases` are further identities that recognise a repeat: the signature, where the sender signs neither
    its id nor a time.
    """

    data: Any
    type: str | None = None
    id: str | None = None
    subject: str | None = None
    time: datetime | None = None
    aliases: tuple[str, ...] = ()
    extensions: dict[str, Any] = field(default_factory=dict)
    answer: Answer | None = None  # the 200 response that the sender expects once it is stored; None: the usual one


@dataclass(frozen=True, slots=True)
class Answer:
    """The body of a 200 response, for senders that expect a particular one."""

    body: bytes = b""
    content_type: str = "text/plain"


class Challenge(Answer):
    """The answer to a sender's challenge, which is not an event; sent at once."""


class Verifier(ABC):
    """One way in which senders prove their identity. A value: frozen, comparable, showing no secret."""

    name: ClassVar[str]  # "github": shown in listings, and the prefix of its event types

    @abstractmethod
    def open(self, where: str) -> None:
        """Resolve the secrets once. Raises ConfigError, naming `where`, if one is missing or invalid."""

    @abstractmethod
    def verify(self, request: WebhookRequest) -> None:
        """Raise Refused, with a reason for the owner, unless the request is genuine and not too old. Raise ConfigError if a
        secret has disappeared since the start. Nothing else is raised, for any input.
        """

    def challenge(self, request: WebhookRequest) -> Challenge | None:  # noqa: ARG002 for senders that send challenges
        """The answer to a challenge, which is not an event; called after `verify`."""
        return None

    @abstractmethod
    def read(self, request: WebhookRequest) -> Delivered:
        """The content of a request that was verified, or that a person trusts. Raises InvalidEvent if it is unreadable."""

    def read_all(self, request: WebhookRequest) -> list[Delivered]:
        """Like `read`, for senders that put several events into one request, or none."""
        return [self.read(request)]

    def reads(self) -> tuple[str, ...] | None:
        """The headers that `verify`, `challenge` and `read` use, besides Content-Type. No other header of an unverified request
        is stored. None: not declared; then only Content-Type is stored, and a release needs `--trust`.
        """
        return None

    @abstractmethod
    def describe(self) -> str:
        """The verifier as a person would write it, without secrets."""
