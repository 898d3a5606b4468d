"""`none`: the explicit declaration that a webhook is not verified."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from wakeful.connect.verifiers.reading import read_body
from wakeful.triggers.verifier import Delivered, Verifier, WebhookRequest


@dataclass(frozen=True, repr=False)
class Unverified(Verifier):
    """Accepts every request."""

    name: ClassVar[str] = "none"

    def open(self, where: str) -> None:
        """No secret to resolve."""

    def verify(self, request: WebhookRequest) -> None:
        """Accept."""

    def read(self, request: WebhookRequest) -> Delivered:
        return Delivered(read_body(request))

    def reads(self) -> tuple[str, ...]:
        return ()

    def describe(self) -> str:
        return "none()"

    __repr__ = describe


def none() -> Verifier:
    """Accepts requests of anyone who knows the address. For senders that cannot prove anything, on a closed network; treat the
    data as untrusted.
    """
    return Unverified()
