"""`bearer` and `basic`: the sender sends its credentials with every request. Anyone who sees one request can send others, so these
prove nothing without HTTPS.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from wakeful.connect.verifiers.proof import from_base64, raw, require_equal, required
from wakeful.connect.verifiers.reading import read_body
from wakeful.connect.verifiers.secrets import GivenSecret, Secrets, key_of
from wakeful.errors import ConfigError
from wakeful.triggers.verifier import Delivered, Refused, Verifier, WebhookRequest

HEADER = "Authorization"


@dataclass(frozen=True, repr=False)
class Bearer(Verifier):
    """A token in the Authorization header."""

    name: ClassVar[str] = "bearer"
    secrets: Secrets

    def open(self, where: str) -> None:
        self.secrets.open(f"{where}: {self.name}", "token")

    def verify(self, request: WebhookRequest) -> None:
        require_equal(_credentials(request, "bearer"), self.secrets.as_keys(), what=f"the token in {HEADER}")

    def read(self, request: WebhookRequest) -> Delivered:
        return Delivered(read_body(request))

    def reads(self) -> tuple[str, ...]:
        return (HEADER,)

    def describe(self) -> str:
        return f"bearer({self.secrets!r})"

    __repr__ = describe


@dataclass(frozen=True, repr=False)
class Basic(Verifier):
    """A user and a password in the Authorization header."""

    name: ClassVar[str] = "basic"
    user: str
    secrets: Secrets

    def open(self, where: str) -> None:
        self.secrets.open(f"{where}: {self.name}", "password")

    def verify(self, request: WebhookRequest) -> None:
        given = from_base64(_credentials(request, "basic"), HEADER)
        # Both halves are compared at once, so that an answer does not tell which of them was wrong.
        expected = [key_of(self.user) + b":" + key for key in self.secrets.as_keys()]
        require_equal(given, expected, what=f"user and password in {HEADER}")

    def read(self, request: WebhookRequest) -> Delivered:
        return Delivered(read_body(request))

    def reads(self) -> tuple[str, ...]:
        return (HEADER,)

    def describe(self) -> str:
        return f'basic("{self.user}", {self.secrets!r})'

    __repr__ = describe


def bearer(token: GivenSecret) -> Bearer:
    """Requests with `Authorization: Bearer <token>`. A token proves who sends, not what: events have no id of their own unless
    the webhook configures one.
    """
    return Bearer(Secrets.of(token, where="bearer", name="token"))


def basic(user: str, password: GivenSecret) -> Basic:
    """Requests with user and password (HTTP Basic)."""
    if not isinstance(user, str) or not user or ":" in user or not user.isprintable():
        message = 'basic: user must be a name without ":", like basic("sender", env("PASSWORD"))'
        raise ConfigError(message)
    return Basic(user, Secrets.of(password, where="basic", name="password"))


def _credentials(request: WebhookRequest, scheme: str) -> bytes:
    """The text after the scheme and its blanks."""
    value = required(request, HEADER)
    found, _, credentials = value.partition(" ")
    if found.lower() != scheme or not (credentials := credentials.strip(" ")):
        message = f"{HEADER} does not contain {scheme.capitalize()} credentials"
        raise Refused(message)
    return raw(credentials, HEADER)
