"""Events: what arrived and what happened to it. `POST /v1/events`, which takes them in, is in `api.events`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal, NotRequired, cast

from typing_extensions import TypedDict

from wakeful.clock import to_text
from wakeful.intake.quarantine import TYPE
from wakeful.model import AdmissionState
from wakeful.resources.declare import Column, Listing, Page, Resource, Show
from wakeful.resources.desk import Desk, views
from wakeful.resources.fields import About, Count, Moment, MomentOrNone
from wakeful.resources.parameters import After, Limit, Param
from wakeful.resources.quarantine_reading import input_of, no_inputs, page_of_inputs
from wakeful.resources.quarantine_views import Quarantined
from wakeful.resources.refusals import Unfit
from wakeful.resources.words import Line, Look, Table, line, plain
from wakeful.stores.reads import json_of
from wakeful.stores.verbs.take_in import QuarantineKind

State = Literal["accepted", "expired", "unmatched", "quarantined"]
WIDE = 100


class Admission(TypedDict):
    """What happened to an event for one agent."""

    agent: str
    state: AdmissionState
    run: str | None
    reason: str | None


class EventConflict(TypedDict):
    """The same event id again, with different content."""

    envelope: Annotated[dict[str, Any] | None, About("The second event; null once removed")]
    seen_at: Moment


class Decision(TypedDict):
    """Policy's decision about an event and an agent."""

    agent: str
    answer: str
    rule: str | None
    version: str | None
    reason: str | None
    decided_at: Moment


class Waited(TypedDict):
    """A run that waited for this event."""

    run: str
    agent: str


class QuarantineOfEvent(Quarantined):
    """Why an event is in quarantine, and whether it was released or discarded."""

    headers: NotRequired[Annotated[dict[str, Any] | None, About("Headers of the input")]]
    form: NotRequired[Literal["raw", "event"]]


class ReleasedFrom(TypedDict):
    """The quarantined input that an event was made from."""

    key: str
    by: Annotated[str | None, About("Who released it")]
    at: MomentOrNone


class EventRow(TypedDict):
    """An event as listings show it."""

    key: Annotated[str, About("Key of the event in this store", example="ff29f843924b871a6b305d778a")]
    app: str
    source: str
    id: Annotated[str, About("CloudEvents id", example="t1")]
    type: Annotated[str, About("CloudEvents type", example="ticket.created")]
    subject: str | None
    state: State
    reason: Annotated[str | None, About("Why the event is in this state")]
    duplicates: Annotated[Count, About("Number of duplicates")]
    accepted_at: Moment


class StoredEvent(EventRow):
    """An event."""

    envelope: NotRequired[Annotated[dict[str, Any] | None, About("Detail only: the whole event; null once removed")]]
    payload_removed: NotRequired[Annotated[bool, About("Detail only: its retention time is over")]]
    admissions: NotRequired[Annotated[list[Admission], About("Detail only: what happened to it, by agent")]]
    conflicts: NotRequired[Annotated[list[EventConflict], About("Detail only: duplicates with different content")]]
    decisions: NotRequired[Annotated[list[Decision], About("Detail only: policy's decisions")]]
    waited: NotRequired[Annotated[list[Waited], About("Detail only: runs that waited for it")]]
    same_id: NotRequired[Annotated[Count, About("Detail only: number of other events with the same id")]]
    quarantine: NotRequired[Annotated[QuarantineOfEvent | None, About("Quarantined event: the reason")]]
    released_from: NotRequired[
        Annotated[ReleasedFrom | None, About("Detail only: the quarantined input it was made from")]
    ]


async def events(
    desk: Desk,
    *,
    type: Annotated[str | None, Param("only events of this type", metavar="TYPE")] = None,  # noqa: A002 the field's own name
    state: Annotated[State | None, Param("only events in this state", metavar="STATE")] = None,
    event: Annotated[str | None, Param("only events with this id", short="--id", metavar="ID")] = None,
    id: Annotated[str | None, Param("only the event with this CloudEvents id or key", http_only=True)] = None,  # noqa: A002
    quarantined: Annotated[bool, Param("only inputs that could not be verified or read, with the reason")] = False,
    source: Annotated[str | None, Param("with quarantined: only from this source", metavar="NAME")] = None,
    kind: Annotated[QuarantineKind | None, Param("with quarantined: only of this kind", metavar="KIND")] = None,
    limit: Limit = 50,
    after: After = None,
) -> Page[StoredEvent]:
    if id is not None:
        one = await find(desk, id)
        return Page([] if one is None else [one], None)
    if quarantined:
        if type is not None or event is not None or state not in {None, "quarantined"}:
            told = "`wakeful quarantine show ID` shows one input"
            detail = "with quarantined, only source and kind can be given"
            raise Unfit(
                detail, "quarantined", typed=f"with --quarantined, only --source and --kind can be given; {told}"
            )
        return await in_quarantine(desk, source, kind, limit, after)
    if source is not None or kind is not None:
        detail = "source and kind are for quarantined"
        raise Unfit(detail, "source" if kind is None else "kind", typed="--source and --kind are for --quarantined")
    page = await desk.reads.page(EventRow, "list_events", type, state, event, limit=limit, after=after)
    return cast("Page[StoredEvent]", page)


async def in_quarantine(
    desk: Desk, source: str | None, kind: str | None, limit: int, after: str | None
) -> Page[StoredEvent]:
    """Quarantined inputs as events, each with its reason."""
    page = await page_of_inputs(desk, source=source, kind=kind, limit=limit, after=after)
    found = [
        StoredEvent(
            key=one["key"],
            app=one["app"],
            source=one["event"]["source"],
            id=one["event"]["id"],
            type=TYPE,
            subject=None,
            state="quarantined",
            reason=one["reason"],
            duplicates=one["came"] - 1,
            accepted_at=one["first_at"],
            quarantine=cast("QuarantineOfEvent", one),
        )
        for one in page.items
    ]
    return Page(found, page.next, last=page.last)


async def find(desk: Desk, key: str) -> StoredEvent | None:
    """One event in detail, by its key or its id; the newest if several sources used the id."""
    rows = await desk.reads.fetch("find_events", key)
    if not rows:
        return None
    seq, *columns, envelope = rows[0]
    (one,) = views(EventRow, [columns])
    conflicts = await desk.reads.fetch("list_conflicts", seq)
    return StoredEvent(
        **one,
        envelope=json_of(envelope),
        payload_removed=not envelope,
        admissions=await desk.reads.rows(Admission, "list_admissions", seq),
        conflicts=[EventConflict(envelope=json_of(other), seen_at=to_text(seen) or "") for _, other, seen in conflicts],
        decisions=await desk.reads.rows(Decision, "list_decisions", seq),
        waited=await desk.reads.rows(Waited, "who_waited", seq),
        same_id=len(rows) - 1,
        quarantine=await quarantine_of(desk, one["key"]) if one["state"] == "quarantined" else None,
        released_from=await released_from(desk, one["key"]),
    )


async def quarantine_of(desk: Desk, key: str) -> QuarantineOfEvent | None:
    """The quarantine record of an event; its bytes are in the envelope."""
    found = await input_of(desk, key)
    kept = None if found is None else {name: one for name, one in found.items() if name not in {"raw", "received"}}
    return cast("QuarantineOfEvent | None", kept)


async def released_from(desk: Desk, key: str) -> ReleasedFrom | None:
    """The quarantined input that an event was made from, if any."""
    found = await desk.reads.rows(ReleasedFrom, "released_from", key)
    return min(found, key=lambda one: one["at"] or "", default=None)


async def none(desk: Desk, *, quarantined: bool = False, **_: Any) -> str:
    if quarantined:
        return await no_inputs(desk)
    if (await events(desk, limit=1)).items:
        return "no matching events"
    return "no events yet. Send one with `wakeful emit APP TYPE`, or POST it to /v1/events of `wakeful serve APP`."


# on the command line


def note(one: StoredEvent, _: Look) -> tuple[str, str]:
    again = f"arrived {one['duplicates'] + 1} times" if one["duplicates"] else ""
    return plain("; ".join(part for part in (one["reason"], again) if part)), "dim"


def shown(one: StoredEvent, look: Look) -> Iterator[str | Line | Table]:
    yield line(
        (plain(one["id"]), "bold"), f"  {plain(one['type'])} from {plain(one['source'])}, ", (one["state"], "state")
    )
    subject = "" if one["subject"] is None else f", subject {plain(one['subject'])}"
    yield line(f"key {one['key']}, app {plain(one['app'])}{subject}, arrived {look.ago(one['accepted_at'])}", indent=2)
    said, _ = note(one, look)
    if said:
        yield line(said, indent=2)
    if one.get("admissions"):
        rows = [
            (plain(to["agent"]), (to["state"], "state"), look.short(to["run"] or "–"), plain(to["reason"] or ""))
            for to in one["admissions"]
        ]
        yield Table(("agent", "state", "run", "reason"), rows, flexible="reason")
    yield f"`wakeful why {one['key']}` explains it."


QUARANTINED = Listing(
    read=events,
    summary="list inputs that could not be verified or read",
    called="quarantined inputs",
    columns=(
        Column("input", show=lambda one, look: look.short(one["key"])),
        Column("source", show=lambda one, _: plain(one["quarantine"]["source"]), flexible=True),
        Column("kind", show=lambda one, _: plain(one["quarantine"]["kind"])),
        Column("state", show=lambda one, _: (one["quarantine"]["state"], "state")),
        Column("came", "accepted_at"),
        Column("times", show=lambda one, _: f"{one['quarantine']['came']:,}"),
        Column("size", show=lambda one, _: f"{one['quarantine']['size']:,}" if one["quarantine"]["size"] else "–"),
        Column("reason", style="dim", none=""),
    ),
    below="reason",
    less=("times", "size", "came", "kind"),
)

RESOURCE = Resource(
    noun="event",
    plural="events",
    view=StoredEvent,
    key="key",
    deep=True,
    example="ff29f843924b871a6b305d778a",
    listing=Listing(
        read=events,
        summary="list events, newest first",
        none=none,
        columns=(
            Column("event", "id"),
            Column("type"),
            Column("state"),
            Column("came", "accepted_at"),
            Column("source", least=WIDE),
            Column("note", show=note, flexible=True),
        ),
        forms=(("quarantined", QUARANTINED),),
    ),
    show=Show(find=find, summary="show one event, by its key or its CloudEvents id", lines=shown),
    more="`wakeful why EVENT` explains what happened to one event.",
)
