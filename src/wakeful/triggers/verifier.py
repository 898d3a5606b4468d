"""What a verifier is: it says whether a request is from whom it claims to be, and what event it brings.

    request (raw bytes) ──► verify ──► challenge? ──► read ──► Delivered: type, id, subject, time, data, aliases
                              └─ Refused: 401, counted, kept in quarantine

Everything here works on the bytes as they came, in constant time where a secret is compared, with no input or output. Secrets
are revealed at each use (`env(…)`), several of them for rotation; `open` reveals them once at the start, so that a missing one
is heard of then.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar

from wakeful.clock import Microseconds
from wakeful.errors import WakefulError

# The verifiers of wakeful.verify, for messages: this file must not import them.
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
    """A request that is not from whom it claims to be, or too old. The sender is told no more than 401; the reason is kept for
    the owner, and holds nothing secret.
    """


@dataclass(frozen=True, slots=True)
class WebhookRequest:
    """A request as it came. Names of headers are in lower case, values are read as Latin-1; what came several times is joined
    by ", ", in its order: so it is no valid signature, token or id any more.
    """

    path: str
    headers: Mapping[str, str]
    body: bytes
    received_at: Microseconds
    query: str = ""
    method: str = "POST"


@dataclass(slots=True)
class Delivered:
    """What a request says, in the words of CloudEvents. `None` means that the sender does not tell: the webhook's own options,
    or its defaults, then apply. `aliases` are further names by which it is known when it comes again: the signature, where the
    sender signs neither its id nor a time.
    """

    data: Any
    type: str | None = None
    id: str | None = None
    subject: str | None = None
    time: datetime | None = None
    aliases: tuple[str, ...] = ()
    extensions: dict[str, Any] = field(default_factory=dict)
    answer: Answer | None = None  # what the sender must hear, with 200, once it is stored; None: the usual answer


@dataclass(frozen=True, slots=True)
class Answer:
    """What a sender is told with 200, where it expects something of its own."""

    body: bytes = b""
    content_type: str = "text/plain"


class Challenge(Answer):
    """The answer to a question of the sender's that is no event: given at once."""


class Verifier(ABC):
    """One way in which senders prove who they are. A value: frozen, comparable, showing no secret."""

    name: ClassVar[str]  # "github": how it is shown, and how the types of its events begin

    @abstractmethod
    def open(self, where: str) -> None:
        """Reveal the secrets once; ConfigError, naming `where`, for one that is missing or cannot be one."""

    @abstractmethod
    def verify(self, request: WebhookRequest) -> None:
        """Refused, with a reason for the owner, unless the request is genuine and not too old. ConfigError if a secret is gone
        since the start. Nothing else, whatever comes.
        """

    def challenge(self, request: WebhookRequest) -> Challenge | None:  # noqa: ARG002 for those that are asked
        """The answer to a question that is no event; asked after `verify`."""
        return None

    @abstractmethod
    def read(self, request: WebhookRequest) -> Delivered:
        """What a request says that was verified, or that a person trusts as it is. InvalidEvent when it cannot be read."""

    def read_all(self, request: WebhookRequest) -> list[Delivered]:
        """The same where a sender puts several things into one request, or sends some that say nothing."""
        return [self.read(request)]

    def reads(self) -> tuple[str, ...] | None:
        """The names of the headers that `verify`, `challenge` and `read` look at, besides Content-Type. Of a request that is not
        verified no other header is stored. None: not declared, so only Content-Type is, and a release needs `--trust`.
        """
        return None

    @abstractmethod
    def describe(self) -> str:
        """How a person would write it, without secrets."""
