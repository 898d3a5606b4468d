"""Reading the quarantine: a page of inputs, and one input with its bytes. `events` uses this, too."""

from __future__ import annotations

from base64 import b64encode
from typing import Annotated, Any

from typing_extensions import TypedDict

from wakeful.clock import Microseconds
from wakeful.errors import NotFound
from wakeful.intake.quarantine import raw_of
from wakeful.resources.declare import Page
from wakeful.resources.desk import Desk, picked, views
from wakeful.resources.fields import AsJson, Moment, MomentOrNone
from wakeful.resources.quarantine_views import Cut, EventName, Quarantined, Room, State, removed
from wakeful.stores.reads import LAST_CHARACTER, SHORTEST_PREFIX
from wakeful.stores.tampered import refuse_to_act_on
from wakeful.stores.transaction import Row
from wakeful.stores.verbs.take_in import QuarantineKind


class InputRow(TypedDict):
    """The columns of every query of inputs."""

    key: str
    app: str
    source: str
    kind: QuarantineKind
    state: State
    reason: str | None
    size: int
    came: int
    first_at: Moment
    settled_by: str | None
    settled_at: MomentOrNone
    note: str | None
    became_key: str | None
    made: int
    event_source: str
    event_id: str


class WholeInputRow(InputRow):
    """The columns of `find_quarantined`."""

    headers: Annotated[Any, AsJson()]
    envelope: str
    form: str | None
    received: Microseconds


async def page_of_inputs(
    desk: Desk,
    *,
    app: str | None = None,
    source: str | None = None,
    kind: str | None = None,
    state: str | None = None,
    limit: int = 50,
    after: str | None = None,
) -> Page[Quarantined]:
    """A page of inputs, newest first, with the space used by unverified inputs."""
    page = await desk.reads.page(InputRow, "page_of_quarantine", app, source, kind, state, limit=limit, after=after)
    removals = await desk.reads.rows(Cut, "list_cut")
    cut = [one for one in removals if app in {None, one["app"]} and source in {None, one["source"]}]
    held = sum(room for name, room in await desk.reads.fetch("list_room") if app in {None, name})
    more = {"unverified": Room(held=held, cut=cut)}
    return Page([quarantined_of(one) for one in page.items], page.next, more, [removed(one) for one in cut])


async def no_inputs(desk: Desk) -> str:
    """The message for an empty listing."""
    first = await page_of_inputs(desk, limit=1)
    some = first.items or first.last
    return "no matching input is in quarantine" if some else "the quarantine is empty and always was"


async def input_of(desk: Desk, identifier: str) -> dict[str, Any] | None:
    """One input with its headers and bytes, by its key, a prefix of it, or its event's id. Raises NotFound if several keys match,
    PayloadTampered if bytes or headers were changed in the store.
    """
    rows = await _rows(desk, identifier)
    if not rows:
        events = await desk.reads.fetch("find_events", identifier)
        rows = [row for event in events for row in await _rows(desk, event[1])][:1]
    exact = [row for row in rows if row[1] == identifier]
    if len(rows) > 1 and not exact:
        message = f"{identifier} matches more than one key in quarantine: give more characters"
        raise NotFound(message)
    found = (exact or rows)[:1]
    refuse_to_act_on(found)
    for one in views(WholeInputRow, [row[1:] for row in found]):
        raw = b64encode(raw_of(one["envelope"])).decode() if one["envelope"] else None
        kept = {"headers": one["headers"], "raw": raw, "received": one["received"], "form": one["form"]}
        return {**quarantined_of(one), **kept}
    return None


async def _rows(desk: Desk, identifier: str) -> list[Row]:
    upper = identifier + (LAST_CHARACTER if len(identifier) >= SHORTEST_PREFIX else "\x01")
    return await desk.reads.fetch("find_quarantined", identifier, upper)


def quarantined_of(row: InputRow) -> Quarantined:
    """An input as listings show it."""
    became = row["became_key"]
    nested = {
        "became": None if became is None else {"key": became, "events": row["made"]},
        "event": EventName(source=row["event_source"], id=row["event_id"]),
    }
    return picked(Quarantined, {**row, **nested})
