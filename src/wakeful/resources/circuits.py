"""Circuits: which dependencies are down, and the verb that declares one working again."""

from __future__ import annotations

from typing import Annotated

from typing_extensions import TypedDict

from wakeful.model import CircuitState
from wakeful.resources.declare import Column, Listing, Resource, Show, Verb
from wakeful.resources.desk import Desk
from wakeful.resources.fields import About, Count, MomentOrNone, Seconds
from wakeful.resources.parameters import OfApp, WhichApp
from wakeful.resources.refusals import Ambiguous
from wakeful.resources.words import number, plain
from wakeful.stores.verbs.circuits import CHANNEL, CloseCircuit


class Circuit(TypedDict):
    """A dependency that is or was down."""

    app: str
    name: Annotated[str, About("Name of the dependency; channel:NAME for a channel", example="stripe")]
    state: CircuitState
    failures: Annotated[Count, About("Consecutive failures")]
    error: Annotated[str | None, About("The last error")]
    rest: Annotated[Seconds, About("Seconds from opening to the next probe")]
    next_at: Annotated[MomentOrNone, About("Open: when one run probes. Recovering: when the next runs resume")]
    came_back: Annotated[Count, About("Recovering: how many runs resumed last time")]
    changed_at: MomentOrNone
    probe: Annotated[str | None, About("The run that probes now")]
    parked: Annotated[Count, About("Runs that wait for it")]
    opened_at: Annotated[MomentOrNone, About("When it left the closed state")]
    waiting: Annotated[Count, About("Channel: deliveries that wait for it")]


class CircuitClosed(TypedDict):
    """A circuit's state after it was closed by hand."""

    app: str
    name: str
    state: CircuitState


class CircuitPlan(TypedDict):
    """What closing a circuit would do."""

    app: str
    name: str
    state: Annotated[CircuitState, About("Its state now")]
    parked: Annotated[Count, About("Runs that would resume, a few at a time")]
    waiting: Annotated[Count, About("Channel: deliveries that would be tried")]
    closes: Annotated[bool, About("False: already closed or recovering; left unchanged")]


async def circuits(desk: Desk, *, app: OfApp = None) -> list[Circuit]:
    return [one for one in await desk.reads.rows(Circuit, "list_circuits") if app in {None, one["app"]}]


async def find(desk: Desk, name: str, *, app: WhichApp = None) -> Circuit | None:
    found = [one for one in await circuits(desk, app=app) if one["name"] == name]
    if len(found) > 1:
        apps = ", ".join(plain(one["app"]) for one in found)
        message = f"circuit {plain(name)} is in several apps ({apps})"
        raise Ambiguous(message, "app")
    return found[0] if found else None


async def known(desk: Desk) -> list[str]:
    return [one["name"] for one in await circuits(desk)]


async def close(desk: Desk, circuit: Circuit) -> CircuitClosed | None:
    done = await desk.store.do(CloseCircuit(circuit["app"], circuit["name"], by=desk.by, note=desk.note))
    return None if done is None else CircuitClosed(app=circuit["app"], name=circuit["name"], state=done.circuit.state)


async def plan(_: Desk, circuit: Circuit) -> CircuitPlan:
    return CircuitPlan(
        app=circuit["app"],
        name=circuit["name"],
        state=circuit["state"],
        parked=circuit["parked"],
        waiting=circuit["waiting"],
        closes=circuit["state"] in {"open", "probing"},
    )


def closed(one: CircuitClosed) -> str:
    named = f"circuit {plain(one['name'])} (app {plain(one['app'])})"
    if one["state"] == "recovering":
        return f"{named} recovers: its parked runs resume a few at a time"
    if one["name"].startswith(CHANNEL):
        return f"{named} is closed: its first delivery is tried now"
    return f"{named} is closed: no run is parked for it"


def planned(one: CircuitPlan) -> str:
    named = f"circuit {plain(one['name'])} (app {plain(one['app'])})"
    if not one["closes"]:
        return f"{named} is {one['state']}: close would not change it"
    if one["name"].startswith(CHANNEL):
        return f"{named} would be closed; {number(one['waiting'], 'delivery')} would be tried"
    return f"{named} would be closed; {number(one['parked'], 'parked run')} would resume a few at a time"


RESOURCE = Resource(
    noun="circuit",
    plural="circuits",
    view=Circuit,
    key="name",
    deep=True,
    example="stripe",
    missing='there is no circuit "{key}" here',
    known=known,
    listing=Listing(
        read=circuits,
        summary="list dependencies that are or were down",
        none="no dependency and no channel has failed here. Name a dependency with @step(dependency=…) or "
        "@action(dependency=…).",
        columns=(
            Column("circuit", "name"),
            Column("app"),
            Column("state"),
            Column("failures"),
            Column("parked", show=lambda one, _: str(one["parked"] or one["waiting"])),
            Column("since", show=lambda one, look: look.ago(one["opened_at"] or one["changed_at"])),
            Column("next", "next_at"),
            Column("last error", "error", flexible=True, style="dim", none=""),
        ),
    ),
    show=Show(find=find, summary="show one circuit"),
    verbs=(
        Verb(
            name="close",
            run=close,
            plan=plan,
            summary="close a circuit: the dependency works again",
            says=closed,
            plans=planned,
            danger="some",
            guarded="close a circuit",
        ),
    ),
    more='Name a dependency with @step(dependency="…") or @action(dependency="…").',
    takes="circuits takes list, or close and a NAME, like: wakeful circuits close stripe",
)
