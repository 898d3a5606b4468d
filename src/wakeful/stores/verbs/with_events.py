"""Requests that bring events along: these are accepted in the same transaction."""

from __future__ import annotations

from typing import Protocol, TypeVar

from wakeful.model import Receipt
from wakeful.stores.lanes import Lanes
from wakeful.stores.request import Others, Ready, Request
from wakeful.stores.verbs.accept import AcceptEvents


def accept_of(request: object) -> AcceptEvents | None:
    """The events that come in with a request, whichever kind it is."""
    if type(request) is AcceptEvents:
        return request
    return getattr(request, "accept", None)


class HasReceipts(Protocol):
    """What came of events that came in with something else."""

    @property
    def receipts(self) -> list[Receipt]: ...


E = TypeVar("E", bound=HasReceipts | None)


class WithEvents(Request[E]):
    """A request that brings events along: `accept` has them, and is carried out with it."""

    __slots__ = ()

    accept: AcceptEvents | None

    may_wake = True

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
