"""Starting an agent by hand: an event for that agent alone. The command line and the HTTP API share this."""

from __future__ import annotations

from typing import Any, Protocol

from wakeful.intake.cloudevents import new_event
from wakeful.intake.reserved import By
from wakeful.model import Event, Receipt
from wakeful.stores.request import Actor
from wakeful.stores.verbs.sending import SentBy


class AcceptsStarts(Protocol):
    """Where events go in."""

    async def accept(
        self, events: list[Event], /, *, agent: str | None = None, by: By, sent: SentBy | None = None
    ) -> list[Receipt]: ...


async def start_run(
    door: AcceptsStarts, app: str, agent: str, data: Any, identifier: str | None = None, *, by: Actor
) -> Receipt:
    """Store the event, its run and the operator in one transaction; the receipt comes after the commit."""
    event = new_event("wakeful.run", data, source=f"/{app}/run", id=identifier)
    return (await door.accept([event], agent=agent, by="app", sent=SentBy(by, "run", f"agent {agent}")))[0]
