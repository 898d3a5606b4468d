"""`none`: the explicit word for a webhook that asks nobody who they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from wakeful.connect.verifiers.reading import read_body
from wakeful.triggers.verifier import Delivered, Verifier, WebhookRequest


@dataclass(frozen=True, repr=False)
class Anybody(Verifier):
    """Believes everybody."""

    name: ClassVar[str] = "none"

    def open(self, where: str) -> None:
        """There is no secret."""

    def verify(self, request: WebhookRequest) -> None:
        """Nothing is asked."""

    def read(self, request: WebhookRequest) -> Delivered:
        return Delivered(read_body(request))

    def reads(self) -> tuple[str, ...]:
        return ()

    def describe(self) -> str:
        return "none()"

    __repr__ = describe


def none() -> Verifier:
    """Requests of anybody who knows the address. For senders that can prove nothing, on a network that lets nobody else in; what
    comes is to be read as what a stranger says.
    """
    return Anybody()
