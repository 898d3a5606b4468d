"""Dead letters: runs and deliveries that were given up, and inputs that could not be read, grouped by error.

A run or a delivery is found by its id; the id of a delivery contains a dash. Each verb is that of the item's own noun.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace as copied
from typing import Annotated, Any, cast

from wakeful.operations.quarantine import dead_inputs
from wakeful.operations.redelivery import plan_redelivery
from wakeful.operations.redo import Choice, plan_redo
from wakeful.resources import deliveries, redo, runs
from wakeful.resources.declare import Listing, Printed, Resource, Show, Verb
from wakeful.resources.deliveries import Delivery, DeliveryRedoPlan, RedoneDelivery
from wakeful.resources.desk import Desk
from wakeful.resources.parameters import UNSET, Param
from wakeful.resources.refusals import Refused
from wakeful.resources.run_views import DeadGroup, RedoneRun, RunDetail, RunRedoPlan
from wakeful.resources.run_words import show_delivery, show_letter
from wakeful.resources.words import Look, Span, Table, plain
from wakeful.stored_errors import in_one_line

DASH = "-"  # in the id of a delivery, never in that of a run

Letter = RunDetail | Delivery


async def groups(
    desk: Desk,
    *,
    agent: Annotated[str | None, Param("only dead letters of this agent", metavar="NAME")] = None,
    error: Annotated[str | None, Param("only dead letters whose error contains this text", metavar="TEXT")] = None,
) -> list[DeadGroup]:
    choice = Choice(agent, error)
    found = [one.to_json() for one in (await plan_redo(desk.reads, choice)).groups]
    found += [one.to_json() for one in (await plan_redelivery(desk.reads, choice)).groups]
    found += [] if agent or error else await dead_inputs(desk.reads)
    return cast("list[DeadGroup]", found)


async def none(_: Desk, *, agent: str | None = None, error: str | None = None) -> str:
    return "no dead letters" + (" like that" if agent or error else "")


def tables(found: Sequence[Mapping[str, Any]], look: Look) -> Iterator[str | Table]:
    kinds = {kind: [one for one in found if one["kind"] == kind] for kind in ("run", "delivery", "input")}
    parts = [
        Table(("agent", "count", "last", "newest run", "error"), [of_runs(one, look) for one in kinds["run"]], "error"),
        Table(
            ("channel", "count", "last", "newest delivery", "error"),
            [of_deliveries(one, look) for one in kinds["delivery"]],
            "error",
        ),
        Table(
            ("source", "count", "last", "newest input", "error"),
            [of_inputs(one, look) for one in kinds["input"]],
            "error",
        ),
    ]
    for place, part in enumerate(one for one in parts if one.rows):
        if place:
            yield ""
        yield part
    if kinds["input"]:
        yield "For inputs use `wakeful quarantine`: show ID, release APP ID, discard ID."


def of_runs(one: Mapping[str, Any], look: Look) -> list[Span]:
    newest = look.short(one["runs"][0])
    return [plain(one["agent"]), str(one["count"]), look.ago(one["last_at"]), newest, (plain(said(one)), "dim")]


def of_deliveries(one: Mapping[str, Any], look: Look) -> list[Span]:
    newest = look.short_delivery(one["deliveries"][0])
    return [plain(one["channel"]), str(one["count"]), look.ago(one["last_at"]), newest, (plain(said(one)), "dim")]


def of_inputs(one: Mapping[str, Any], look: Look) -> list[Span]:
    because = plain(f"{one['quarantined']}: {one['newest_error']}")
    return [
        plain(one["source"]),
        str(one["count"]),
        look.ago(one["last_at"]),
        look.short(one["newest"]),
        (because, "dim"),
    ]


def said(group: Mapping[str, Any]) -> str:
    """The error that the group has in common, and the newest one's full error if it says more."""
    common, newest = str(group["error"]), in_one_line(str(group["newest_error"]))
    whole = f"{common.partition(': ')[0]}: {newest}"
    if common.endswith(":"):  # the following lines have the cause
        return whole + (" (newest)" if group["count"] > 1 else "")
    return common if common == whole else f"{common} (newest: {newest})"


# one dead letter


async def find(desk: Desk, key: str) -> RunDetail | Delivery | None:
    return await deliveries.find(desk, key) if DASH in key else await runs.find(desk, key)


async def missing(desk: Desk, key: str) -> str:
    return await deliveries.missing(desk, key) if DASH in key else runs.no_run(key)


def is_delivery(letter: Letter) -> bool:
    return DASH in letter["id"]


def shown(letter: Letter, look: Look) -> Printed:
    return show_delivery(letter, look) if is_delivery(letter) else show_letter(letter, look)


async def replay(desk: Desk, letter: Letter, *, data: redo.Data = UNSET) -> RedoneRun | RedoneDelivery | None:
    if is_delivery(letter):
        refuse_data(data)
        return await deliveries.replay(desk, cast("Delivery", letter))
    refuse_done(desk, letter)
    return await redo.replay(desk, cast("RunDetail", letter), data=data)


async def plan_replay(desk: Desk, letter: Letter, *, data: redo.Data = UNSET) -> RunRedoPlan | DeliveryRedoPlan:
    if is_delivery(letter):
        refuse_data(data)
        return await deliveries.plan_replay(desk, cast("Delivery", letter))
    refuse_done(desk, letter)
    return await redo.plan_replay(desk, cast("RunDetail", letter))


async def discard(desk: Desk, letter: Letter) -> RedoneRun | RedoneDelivery | None:
    if is_delivery(letter):
        return await deliveries.discard(desk, cast("Delivery", letter))
    return await redo.discard(desk, cast("RunDetail", letter))


async def plan_discard(desk: Desk, letter: Letter) -> RunRedoPlan | DeliveryRedoPlan:
    if is_delivery(letter):
        return await deliveries.plan_discard(desk, cast("Delivery", letter))
    return await redo.plan_discard(desk, cast("RunDetail", letter))


def refuse_data(data: Any) -> None:
    if data is not UNSET:
        message = "--data is for a run: the message of a delivery cannot be changed"
        raise Refused(message, kind="data-does-not-fit", title="A delivery takes no data", status=422, field="data")


def refuse_done(desk: Desk, run: Letter) -> None:
    if run["state"] == "done":
        again = (
            f"`wakeful replay {run['id']} --again`"
            if desk.by.way == "cli"
            else f'POST /v1/runs/{run["id"]}/replay with "again": true'
        )
        message = (
            f"run {run['id']} is done and not a dead letter: {again} runs it once more and reuses its confirmed effects instead of "
            "repeating them"
        )
        raise Refused(message, kind="not-over", title="This is not a dead letter")


async def apps_of(desk: Desk, letter: Letter) -> list[str]:
    if is_delivery(letter):
        return await deliveries.app_of(desk, cast("Delivery", letter))
    return [cast("RunDetail", letter)["app"]]


def would(plan: Any) -> str:
    return redo.would_one(plan) if "confirmed_actions" in plan else str(plan["plan"])


def replayed(done: Any, letter: Any, given: Mapping[str, Any]) -> str | Printed:
    return deliveries.replayed(done, letter) if "delivery" in done else redo.replayed(done, letter, given)


def discarded(done: Any, letter: Any) -> str:
    return deliveries.discarded(done, letter) if "delivery" in done else redo.discarded(done)


TAKES = {"list": "no ID", "show": "one ID", "replay": "at most one ID", "discard": "at most one ID"}
RESOURCE = Resource(
    noun="dead letter",
    plural="dead",
    code=redo.CHECKS,
    view=DeadGroup,
    state=None,
    example="22290ae6d7",
    missing=missing,
    listing=Listing(
        read=groups,
        summary="list dead letters: runs by agent and error, deliveries by channel and error",
        none=none,
        member="groups",
        whole=tables,
    ),
    show=Show(find=find, summary="show one dead letter, a run or a delivery, and the commands for it", lines=shown),
    verbs=(
        Verb(
            name="replay",
            run=replay,
            plan=plan_replay,
            plans=would,
            summary="resume a dead run or retry a dead delivery",
            says=replayed,
            guarded="replay",
            apps=apps_of,
            statuses=("422",),
            bulk=copied(
                redo.REPLAY,
                http=None,
                operation=None,
                summary="Replay many dead letters: one batch per request",
                others=(redo.also_deliveries(deliveries.plan_replays),),
            ),
        ),
        Verb(
            name="discard",
            run=discard,
            plan=plan_discard,
            plans=would,
            summary="give up a dead run or a dead delivery for good",
            says=discarded,
            danger="some",
            bulk=copied(
                redo.DISCARD,
                http=None,
                operation=None,
                summary="Give up many dead letters for good: one batch per request",
            ),
        ),
    ),
    more="`wakeful why RUN` explains how a run died.",
    takes=lambda word: f"dead {word} takes {TAKES[word]}",
)
