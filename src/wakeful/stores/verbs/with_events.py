"""Requests with events, which are accepted in the same transaction."""

from __future__ import annotations

from typing import Protocol, TypeVar

from wakeful.model import Receipt
from wakeful.stores.lanes import Lanes
from wakeful.stores.request import Others, Ready, Request
from wakeful.stores.verbs.accept import AcceptEvents


def accept_of(request: object) -> AcceptEvents | None:
    """The events of any kind of request."""
    if type(request) is AcceptEvents:
        return request
    return getattr(request, "accept", None)


class HasReceipts(Protocol):
    """A result with the receipts of the request's events."""

    @property
    def receipts(self) -> list[Receipt]: ...


E = TypeVar("E", bound=HasReceipts | None)


class WithEvents(Request[E]):
    """A request with events: `accept` has them and is carried out with it."""

    __slots__ = ()

    accept: AcceptEvents | None

    @property
    def woken(self) -> list[tuple[str, str]]:
        return [] if self.accept is None else self.accept.woken

    def size(self) -> tuple[int, int]:
        return (0, 0) if self.accept is None else self.accept.size()

    def lock_keys(self, lanes: Lanes) -> None:
        if self.accept is not None:
            self.accept.lock_keys(lanes)

    def readies(self) -> Ready | None:
        return None if self.accept is None else self.accept.readies()

    def tell(self, result: E, others: Others) -> None:
        if self.accept is not None and result is not None:
            self.accept.tell(result.receipts, others)
