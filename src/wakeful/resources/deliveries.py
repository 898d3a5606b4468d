"""Deliveries: messages on their way to channels, and the verbs for those that were given up.

confirm   an unknown delivery has arrived
replay    retry dead deliveries under the same id; by ID also one that is unknown or pending
discard   give up dead deliveries for good; by ID also one that is unknown or pending
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, cast

from pydantic_core import to_json
from typing_extensions import TypedDict

from wakeful.clock import Microseconds, to_text
from wakeful.model import DeliveryState
from wakeful.operations.pace import Pace, Progress
from wakeful.operations.redelivery import REDOABLE, DeliveryPlan, plan_redelivery, redo_deliveries, why_not
from wakeful.operations.redo import Choice
from wakeful.resources.declare import Bulk, Column, Listing, Page, Planned, Resource, Show, Verb
from wakeful.resources.desk import Desk
from wakeful.resources.fields import About, AsJson, Count, Flag, MomentOrNone, shown_as
from wakeful.resources.parameters import After, Limit, Param
from wakeful.resources.refusals import Refused, Unfit
from wakeful.resources.shown import Failure
from wakeful.resources.words import Look, failure_line, in_json, number, plain, whole_json
from wakeful.stores.known import apps_of_agent
from wakeful.stores.reads import LAST_CHARACTER, SHORTEST_PREFIX, several
from wakeful.stores.verbs.outbox import ConfirmDelivery, RedoDelivery
from wakeful.triggers.past import read_past


@shown_as({"id": "1767225600.000100", "url": "https://example.com/m/1767225600"})
class Evidence(TypedDict):
    """What the other side answered: its id of the message, and where people find it."""

    id: str | None
    url: str | None


class Delivery(TypedDict):
    """A message on its way to a channel."""

    id: Annotated[str, About("Id of the delivery", example="22290ae6d7fc693079e167a06b-05d6fdd5f622")]
    channel: str
    state: DeliveryState
    reason: str | None
    message: Annotated[Any, AsJson(), About("Any JSON", example={"text": "Ticket 8841 is answered"})]
    subject: str | None
    error: Failure
    tries: Count
    due_at: MomentOrNone
    committed_at: MomentOrNone
    settled_at: MomentOrNone
    run: str
    agent: str
    urgent: Annotated[Flag, About("It goes in the urgent lane of its channel")]
    thread: Annotated[str | None, About("Deliveries of one thread keep their order", example="ticket/8841")]
    evidence: Annotated[Evidence | None, AsJson(), About("What the other side answered")]
    doubt_at: Annotated[MomentOrNone, About("When a try began that may have arrived")]


class ConfirmedDelivery(TypedDict):
    """A delivery that a person confirmed."""

    delivery: str
    was: Literal["unknown"]


class RedoneDelivery(TypedDict):
    """A delivery's state before it was replayed or discarded."""

    delivery: str
    was: Literal["dead", "unknown", "pending"]


class DeliveryRedoPlan(TypedDict):
    """The plan of replaying or discarding one delivery."""

    plan: str
    count: Count


class DeadDeliveries(TypedDict):
    """Dead deliveries to one channel with the same error."""

    kind: Literal["delivery"]
    channel: str
    error: str
    newest_error: str
    count: Count
    last_at: MomentOrNone
    deliveries: list[str]


@shown_as({"redone": 2, "left": 0, "until": "2026-08-01T08:00:00Z"})
class RedoneDeliveries(TypedDict, total=False):
    """The plan or the result of replaying or discarding dead deliveries."""

    count: Annotated[Count, About("Plan: number of dead deliveries")]
    groups: Annotated[list[DeadDeliveries], About("Plan: these, by channel and error")]
    redone: Annotated[Count, About("How many this request handled")]
    left: Annotated[Count, About("How many are left: repeat the request until this is 0")]
    until: Annotated[str, About("Pass this as filter.until of the next request")]


# reading


async def deliveries(
    desk: Desk,
    *,
    channel: Annotated[str | None, Param("only deliveries to this channel", metavar="NAME")] = None,
    state: Annotated[DeliveryState | None, Param("only deliveries in this state")] = None,
    limit: Limit = 50,
    after: After = None,
) -> Page[Delivery]:
    return await desk.reads.page(Delivery, "page_of_deliveries", channel, state, limit=limit, after=after)


async def find(desk: Desk, identifier: str) -> Delivery | None:
    """One delivery by its id: the id of its first run, a dash, and its own; both may be cut to six characters."""
    first, dash, own = identifier.partition("-")
    if not dash:
        return None
    roots = [first]
    if len(first) >= SHORTEST_PREFIX:
        roots = [row[0] for row in await desk.reads.fetch("find_roots", first, first + LAST_CHARACTER)]
    found: dict[str, Delivery] = {}  # the newest one per id: if a held run was repeated, its delivery is stored twice
    for root in roots:
        for one in await desk.reads.rows(Delivery, "list_deliveries", root):
            if one["id"] == identifier or (len(own) >= SHORTEST_PREFIX and one["id"].startswith(f"{root}-{own}")):
                found[one["id"]] = one
    if len(found) > 1 and identifier not in found:
        raise several(
            identifier, "delivery", [f"{one['id']} ({one['channel']}, {one['state']})" for one in found.values()]
        )
    return found.get(identifier) or next(iter(found.values()), None)


async def missing(_: Desk, key: str) -> str:
    return f'there is no delivery "{plain(key)}": see `wakeful deliveries`'


async def none(desk: Desk, **_: Any) -> str:
    some = (await deliveries(desk, limit=1)).items
    return "no matching deliveries" if some else "no deliveries yet. An agent makes one with `run.send(…)`."


def words_of(one: Delivery, _: Look) -> tuple[str, str]:
    """The error of a delivery that failed; else its message."""
    if one["state"] == "unknown":
        return plain(one["reason"] or "it may have arrived"), "dim"
    if one["error"] and one["state"] in {"pending", "dead"}:
        return failure_line(one["error"]), "dim"
    if one["reason"] and one["state"] == "discarded":
        return plain(one["reason"]), "dim"
    said = in_json(one["message"])
    return plain(f"{one['subject']}: {said}" if one["subject"] else said), "dim"


# one delivery


EvidenceGiven = Annotated[
    str | None, Param("where it is on the other side", about="where people find it on the other side", metavar="URL")
]


async def confirm(desk: Desk, one: Delivery, *, url: EvidenceGiven = None) -> ConfirmedDelivery | None:
    """A person found that it has arrived. Raises Refused unless its state is unknown."""
    evidence = None if url is None else to_json({"id": None, "url": url}).decode()
    before = await desk.store.do(ConfirmDelivery(one["id"], evidence, by=desk.by, note=desk.note))
    if before is None:
        return None
    if before != "unknown":
        raise not_unknown(one["id"], before)
    return ConfirmedDelivery(delivery=one["id"], was="unknown")


async def plan_confirm(_: Desk, one: Delivery, *, url: EvidenceGiven = None) -> DeliveryRedoPlan:
    del url
    if one["state"] != "unknown":
        raise not_unknown(one["id"], one["state"])
    return DeliveryRedoPlan(plan=f"would confirm {named(one)}", count=1)


def not_unknown(identifier: str, state: str) -> Refused:
    words = f"delivery {identifier} is {state}: only an unknown delivery, which may have arrived, can be confirmed"
    return Refused(words, kind="not-unknown", title="This delivery is not in doubt")


def confirmed(_: ConfirmedDelivery, one: Delivery) -> str:
    return f"{named(one)}: delivered, was unknown"


async def replay(desk: Desk, one: Delivery) -> RedoneDelivery | None:
    return await redo(desk, one, discard=False)


async def discard(desk: Desk, one: Delivery) -> RedoneDelivery | None:
    return await redo(desk, one, discard=True)


async def redo(desk: Desk, one: Delivery, *, discard: bool) -> RedoneDelivery | None:
    """Replay or discard a dead, unknown or pending delivery. Raises Refused in any other state."""
    asked = RedoDelivery(one["id"], discard=discard, waiting=True, by=desk.by, note=desk.note)
    before = await desk.store.do(asked)
    if before is None:
        return None
    if before not in REDOABLE:
        raise refusal(one["id"], before, discard=discard)
    return RedoneDelivery(delivery=one["id"], was=cast("Any", before))


async def plan_replay(_: Desk, one: Delivery) -> DeliveryRedoPlan:
    return redo_plan(one, "replay")


async def plan_discard(_: Desk, one: Delivery) -> DeliveryRedoPlan:
    return redo_plan(one, "discard")


def redo_plan(one: Delivery, word: str) -> DeliveryRedoPlan:
    if one["state"] not in REDOABLE:
        raise refusal(one["id"], one["state"], discard=word == "discard")
    return DeliveryRedoPlan(plan=f"would {word} {named(one)}", count=1)


async def app_of(desk: Desk, one: Delivery) -> list[str]:
    return [row[0] for row in await desk.reads.fetch("app_by_run", one["run"])]


def refusal(identifier: str, state: str, *, discard: bool) -> Refused:
    words = why_not(identifier, state, discard=discard)
    return Refused(words, kind="not-waiting", title="This delivery is over or held")


def named(one: Delivery) -> str:
    return f"delivery {one['id']} to channel {plain(one['channel'])}"


def replayed(done: RedoneDelivery, one: Delivery) -> str:
    return f"{named(one)}: {'tried now' if done['was'] == 'pending' else 'pending again'}, was {done['was']}"


def discarded(done: RedoneDelivery, one: Delivery) -> str:
    return f"{named(one)}: discarded, was {done['was']}"


# many


def only_dead(text: str) -> str:
    if text != "dead":
        message = f"only dead deliveries can be replayed or discarded, not --state {plain(text)}"
        raise ValueError(message)
    return text


ToChannel = Annotated[
    str | None, Param("all dead deliveries to this channel", about="dead deliveries to this channel", metavar="NAME")
]
WithError = Annotated[
    str | None,
    Param(
        "all dead deliveries whose error contains this text",
        about="dead deliveries whose error contains this text",
        metavar="TEXT",
    ),
]
Everything = Annotated[bool, Param("all dead deliveries", about="all dead deliveries", http="all", flag="--all")]
Until = Annotated[
    str | None,
    Param(
        "only those given up before this time",
        about="only those given up before this time: the until of the first answer",
        metavar="TIME",
        example="2h",
    ),
]
OnlyDead = Annotated[str | None, Param("may only be dead", metavar="STATE", read=only_dead)]


async def plan_replays(
    desk: Desk,
    *,
    channel: ToChannel = None,
    error: WithError = None,
    everything: Everything = False,
    until: Until = None,
    state: OnlyDead = None,
) -> Planned:
    del everything, state  # they select nothing
    return await planned_many(desk, "replay", channel, error, until)


async def plan_discards(
    desk: Desk,
    *,
    channel: ToChannel = None,
    error: WithError = None,
    everything: Everything = False,
    until: Until = None,
    state: OnlyDead = None,
) -> Planned:
    del everything, state
    return await planned_many(desk, "discard", channel, error, until)


async def planned_many(desk: Desk, word: str, channel: str | None, error: str | None, until: str | None) -> Planned:
    present = await desk.reads.time()
    last = None if until is None else past(until, present)
    plan = await plan_redelivery(desk.reads, Choice(None, error, last), channel)
    # The client returns this, so that the next slice leaves out deliveries that were replayed in this one and died again.
    more = {"until": to_text(present if last is None else last)} if desk.by.way == "http" else {}
    return Planned(len(plan.letters), plan.to_json(), (plan, word), more)


def past(text: str, present: Microseconds) -> Microseconds:
    try:
        return read_past(text, now=present)
    except ValueError as error:
        raise Unfit(f"until: {error}", "until", typed=f"--until: {error}") from None


async def redo_slice(desk: Desk, planned: Planned, most: int, pace: Pace, progress: Progress) -> int:
    """Replay or discard, oldest first: the order in which they were sent."""
    plan, word = planned.work
    discard, letters = word == "discard", plan.letters[-most:]
    return await redo_deliveries(
        desk.store, letters, by=desk.by, note=desk.note, discard=discard, pace=pace, progress=progress
    )


async def apps_of(desk: Desk, planned: Planned) -> list[str]:
    agents = dict.fromkeys(letter["agent"] for letter in planned.work[0].letters)
    return [app for agent in agents for app in await apps_of_agent(desk.reads, agent)]


def groups_of(planned: Planned, _: Look) -> list[str]:
    plan: DeliveryPlan = planned.work[0]
    return [f"{len(one.letters):>7,}  to {plain(one.name)}  {plain(one.signature)}" for one in plan.groups]


def would(planned: Planned, _: Mapping[str, Any]) -> str:
    return f"would {planned.work[1]} {number(planned.count, 'dead delivery')}"


def said_done(done: int, planned: Planned, _: Look) -> list[str]:
    became = "discarded" if planned.work[1] == "discard" else f"{'is' if done == 1 else 'are'} pending again"
    return [f"{done:,} of {number(planned.count, 'dead delivery')} {became}"]


def none_like_that(way: str) -> str:
    if way == "http":
        return "no dead delivery matches: GET /v1/dead lists all dead letters"
    return "no dead delivery matches: see `wakeful dead list`"


def many(plan: Any) -> Bulk:
    return Bulk(
        plan=plan,
        slice=redo_slice,
        some=("channel", "error", "everything"),
        many="dead deliveries",
        done="redone",
        none=none_like_that,
        apps=apps_of,
        before=groups_of,
        words=would,
        planned=lambda planned, given, _: [would(planned, given)],
        says=said_done,
        view=RedoneDeliveries,
        which="no delivery is selected: give an ID, --channel NAME, --error TEXT or --all",
        rate=None,  # a replayed delivery goes out in its channel's lane, as fast as the channel takes it
    )


SEVERAL = "one ID; for several use --channel NAME, --error TEXT or --all"
TAKES = {
    "list": "no ID: use deliveries show ID",
    "show": "one ID",
    "confirm": "one ID",
    "replay": SEVERAL,
    "discard": SEVERAL,
}
RESOURCE = Resource(
    noun="delivery",
    plural="deliveries",
    view=Delivery,
    example="3f2a91c04d1be20a77c5d9e61f-05d6fdd5f622",
    missing=missing,
    listing=Listing(
        read=deliveries,
        summary="list deliveries to channels, newest first",
        none=none,
        columns=(
            Column("delivery", show=lambda one, look: look.short_delivery(one["id"])),
            Column("channel"),
            Column("agent"),
            Column("state"),
            Column("tries"),
            Column("committed", "committed_at"),
            Column("message", show=words_of, flexible=True),
        ),
    ),
    show=Show(find=find, summary="show one delivery", lines=lambda one, _: [whole_json(one)]),
    verbs=(
        Verb(
            name="confirm",
            run=confirm,
            plan=plan_confirm,
            summary="an unknown delivery has arrived",
            says=confirmed,
            plans=lambda one: str(one["plan"]),
            guarded="confirm a delivery",
            apps=app_of,
        ),
        Verb(
            name="replay",
            run=replay,
            plan=plan_replay,
            summary="retry a dead or unknown delivery under the same id",
            says=replayed,
            plans=lambda one: str(one["plan"]),
            guarded="replay a delivery",
            apps=app_of,
            bulk=many(plan_replays),
        ),
        Verb(
            name="discard",
            run=discard,
            plan=plan_discard,
            summary="give up a dead or unknown delivery for good",
            says=discarded,
            plans=lambda one: str(one["plan"]),
            danger="some",
            bulk=many(plan_discards),
        ),
    ),
    more="`wakeful why ID` explains one delivery.",
    takes=lambda word: f"deliveries {word} takes {TAKES[word]}",
)
