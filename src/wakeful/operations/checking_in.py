"""Checking in: an event that reports that an expected task was done. The command line and the HTTP API share this."""

from __future__ import annotations

from typing import Any, Protocol

from pydantic_core import from_json

from wakeful.errors import NotFound, did_you_mean
from wakeful.intake.cloudevents import new_event
from wakeful.intake.reserved import By
from wakeful.model import Event, Receipt
from wakeful.stores.reads import ReadsDatabase
from wakeful.stores.request import Actor
from wakeful.stores.verbs.sending import SentBy
from wakeful.watch.expectations import CHECKIN


class AcceptsCheckins(Protocol):
    """Takes in events."""

    async def accept(self, events: list[Event], /, *, by: By, sent: SentBy | None = None) -> list[Receipt]: ...


async def app_expecting(reads: ReadsDatabase, name: str, app: str | None) -> str:
    """The app that expects a check-in of this name. Raises NotFound for an unknown name: a misspelt check-in would be stored, and
    the alarm would still be raised.
    """
    rows = [(of, from_json(definition)) for of, definition in await reads.fetch("list_expectations")]
    expected = [(of, one["subject"]) for of, one in rows if one.get("subject") is not None and app in {None, of}]
    apps = sorted(known for known, expects in expected if expects == name)
    if not apps:
        hint = did_you_mean(name, {expects for _, expects in expected})
        message = f'no check-in "{name}" is expected.{hint} Declare it with app.expect("{name}", by=…)'
        raise NotFound(message)
    if len(apps) > 1:
        message = f'"{name}" is expected by several apps ({", ".join(apps)}): choose one'
        raise NotFound(message)
    return str(apps[0])


async def check_in(
    door: AcceptsCheckins, app: str, name: str, data: Any = None, identifier: str | None = None, *, by: Actor
) -> Receipt:
    """Store a check-in and its sender in one transaction. Returns the receipt after the commit."""
    event = new_event(CHECKIN, data, source=f"/{app}/checkins", id=identifier, subject=name)
    return (await door.accept([event], by="app", sent=SentBy(by, "checkin", name)))[0]
