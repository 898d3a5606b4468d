"""Apps: the apps of a store, the open work of each, and the verb that retires one.

A process that starts the code of a retired app reinstates it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, cast

from typing_extensions import TypedDict

from wakeful.model import OWN_AGENTS
from wakeful.operations import retiring
from wakeful.operations.retiring import StillServed, plan_retirement, refuse_unknown
from wakeful.resources.declare import Column, Listing, Resource, Verb
from wakeful.resources.desk import NOW, Desk
from wakeful.resources.fields import About, Count, Moment
from wakeful.resources.parameters import Param
from wakeful.resources.refusals import Refused
from wakeful.resources.words import Look, plain
from wakeful.stores import known as stored

SHOWN_NAMES = 4
SINGULAR = {"deliveries": "delivery"}


class RetiredBy(TypedDict):
    """Who retired an app, when and why."""

    at: Moment
    by: str
    note: str | None


class App(TypedDict):
    """An app and its open work."""

    app: str
    state: Literal["alive", "down", "retired"]
    workers: Count
    agents: list[str]
    schedules: Count
    runs: Annotated[dict[str, int], About("Runs that are not over or need a person, by state")]
    alarms: Count
    retired: RetiredBy | None


class Retirement(TypedDict):
    """What was closed when an app was retired, or would be."""

    app: str
    workers: Count
    retired: Annotated[RetiredBy | None, About("An earlier retirement, if any")]
    schedules: list[str]
    expectations: list[str]
    runs: dict[str, int]
    messages: Count
    alarms: list[str]
    dead: Annotated[Count, About("Dead letters, which are kept")]


# reading


async def names(desk: Desk) -> list[str]:
    """The names of all apps that have used this store."""
    return sorted(await stored.known_apps(desk.reads))


async def apps(desk: Desk) -> list[App]:
    known, retired = await stored.known_apps(desk.reads), await stored.retired_apps(desk.reads)
    workers = await counted(desk, "workers_of_apps", NOW)
    schedules, alarms = await counted(desk, "schedules_of_apps"), await counted(desk, "alarms_of_apps")
    return [
        App(
            app=name,
            state="retired" if name in retired else "alive" if workers.get(name) else "down",
            workers=workers.get(name, 0),
            agents=sorted(one for one in known.get(name, ()) if not one.startswith(OWN_AGENTS)),
            schedules=schedules.get(name, 0),
            runs=await stored.unfinished(desk.reads, name),
            alarms=alarms.get(name, 0),
            retired=cast("RetiredBy | None", retired.get(name)),
        )
        for name in sorted(known.keys() | retired.keys())
    ]


async def counted(desk: Desk, query: str, *parameters: Any) -> dict[str, int]:
    return {row[0]: row[1] for row in await desk.reads.fetch(query, *parameters)}


# retiring

Live = Annotated[bool, Param("retire the app even if live workers serve it")]


async def retire(desk: Desk, name: str, *, live: Live = False) -> Retirement:
    plan = await plan_retirement(desk.reads, name)
    store = desk.database_store
    try:
        done = await retiring.retire(desk.reads, store, plan, by=desk.by, note=desk.note, live=live)
    except StillServed as error:
        words = str(error) if desk.by.way == "cli" else str(error).replace("--live", '"live": true')
        raise Refused(words, kind="still-served", title="Live workers serve this app") from None
    return cast("Retirement", done.to_json())


async def plan(desk: Desk, name: str, *, live: Live = False) -> Retirement:
    del live
    return cast("Retirement", (await plan_retirement(desk.reads, name)).to_json())


async def retired_apps(desk: Desk, name: str, **_: Any) -> list[str]:
    """The app whose token is needed."""
    await refuse_unknown(desk.reads, name)
    return [name]


# messages


def note(one: App, look: Look) -> str:
    gone = one["retired"]
    if gone is None:
        return plain(", ".join(one["agents"])) or "–"
    words = f": {gone['note']}" if gone["note"] else ""
    return plain(f"retired {look.ago(gone['at'])} by {gone['by']}{words}")


def is_retired(done: Retirement) -> list[str]:
    return [f"app {plain(done['app'])} is retired", *closed(done)]


def would_retire(done: Retirement, _: str, given: Mapping[str, Any]) -> list[str]:
    before = f"; it was already retired by {done['retired']['by']}" if done["retired"] else ""
    told = [f"would retire app {plain(done['app'])}{before}", *closed(done)]
    if done["workers"] and not given.get("live"):
        count = "1 live worker serves it" if done["workers"] == 1 else f"{done['workers']} live workers serve it"
        told.append(f"  {count}: stop that first, or add --live")
    return told


def closed(done: Retirement) -> list[str]:
    """What is closed, one line per kind."""
    kinds = [
        ("schedules", "removed", len(done["schedules"]), done["schedules"]),
        ("expectations", "excused", len(done["expectations"]), done["expectations"]),
        ("runs", "cancelled", sum(done["runs"].values()), by_state(done["runs"])),
        ("deliveries", "discarded", done["messages"], []),
        ("alarms", "resolved", len(done["alarms"]), done["alarms"]),
    ]
    told = [
        f"{count} {noun if count != 1 else SINGULAR.get(noun, noun[:-1])} {verb}{named(names)}"
        for noun, verb, count, names in kinds
        if count
    ]
    if done["dead"]:
        letters = "1 dead letter is kept" if done["dead"] == 1 else f"{done['dead']} dead letters are kept"
        told.append(f"{letters}: `wakeful dead list`")
    return [f"  {plain(one)}" for one in told or ["it has no open work"]]


def by_state(runs: Mapping[str, int]) -> list[str]:
    return [f"{count} {state}" for state, count in runs.items()]


def named(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN_NAMES} more" if len(names) > SHOWN_NAMES else ""
    return f": {', '.join(names[:SHOWN_NAMES])}{more}" if names else ""


RESOURCE = Resource(
    noun="app",
    plural="apps",
    view=App,
    key="name",
    example="shop",
    in_place=True,
    listing=Listing(
        read=apps,
        summary="list the apps of this store and the open work of each",
        none="no app has used this store yet: start one with `wakeful serve APP`",
        columns=(
            Column("app"),
            Column("state"),
            Column("workers"),
            Column("schedules"),
            Column("alarms"),
            Column("runs", show=lambda one, _: ", ".join(by_state(one["runs"])) or "–"),
            Column("note", show=note, flexible=True),
        ),
    ),
    verbs=(
        Verb(
            name="retire",
            run=retire,
            summary="close all open work of an app; nothing is deleted",
            says=is_retired,
            by_key=True,
            danger="much",
            plan=plan,
            plans=would_retire,
            plan_help="only print what would be closed",
            person="retire an app",
            apps=retired_apps,
        ),
    ),
    more="retire removes the app's schedules, cancels its open runs, discards its pending deliveries and resolves its "
    "alarms. Nothing is deleted, dead letters are kept, and effects are not undone. Starting the app reinstates it.",
    takes="apps takes list, or retire NAME, like: wakeful apps retire shop --plan",
)
