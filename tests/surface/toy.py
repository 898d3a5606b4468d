"""A noun that no store has, with everything that a noun can declare: the surfaces are tested with it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from typing_extensions import TypedDict

from wakeful.errors import NotFound
from wakeful.operations.pace import Pace, Progress
from wakeful.operations.pace import carry_out as in_batches
from wakeful.resources.declare import Alias, Bulk, Column, Listing, Page, Planned, Reading, Resource, Show, Verb
from wakeful.resources.desk import Desk
from wakeful.resources.fields import About, Count, Flag, Made, Moment
from wakeful.resources.parameters import After, Limit, OfApp, Param, WhichApp
from wakeful.resources.refusals import Ambiguous, Refused
from wakeful.resources.words import Look, Table, line, number

PetState = Literal["awake", "asleep"]


class Pet(TypedDict):
    """A pet of an app."""

    name: str
    app: str
    state: PetState
    meals: Annotated[Count, About("Since it came", example=3)]
    good: Flag
    born_at: Moment
    title: Annotated[str, Made(), About("Its name with its app")]


class Fed(TypedDict):
    """What feeding did."""

    name: str
    meals: Count
    by: str
    way: str
    note: str | None


class FeedPlan(TypedDict):
    """What feeding would do."""

    would_have: Count


class Nap(TypedDict):
    """When it sleeps."""

    hours: list[int]


class Washed(TypedDict, total=False):
    """What washing did, or would do."""

    pets: Count
    washed: Count
    left: Count
    until: str


class Herd(TypedDict):
    """Beside the pets of a page."""

    herd: Count


@dataclass
class Yard:
    """Where the pets are, and what was done to them."""

    pets: dict[tuple[str, str], Pet] = field(default_factory=dict)
    done: list[tuple[Any, ...]] = field(default_factory=list)


YARD = Yard()


def pet(name: str, app: str = "zoo", **changed: Any) -> Pet:
    one = Pet(
        name=name, app=app, state="awake", meals=0, good=True, born_at="2026-01-01T00:00:00Z", title=f"{name} of {app}"
    )
    one.update(changed)  # type: ignore[typeddict-item]
    return one


def amount(text: str) -> int:
    if not text.endswith("kg"):
        message = f"{text!r} is no weight: write 2kg"
        raise ValueError(message)
    return int(text[:-2])


async def pets(
    _: Desk,
    *,
    app: OfApp = None,
    state: Annotated[PetState | None, Param("only pets in this state")] = None,
    good: Annotated[bool, Param("only good ones")] = False,
    limit: Annotated[int, Param("how many at most", metavar="N", least=1, most=500, in_shell=2)] = 3,
    after: After = None,
) -> Page[Pet]:
    if after is not None and not after.isdigit():
        message = "not a cursor"
        raise ValueError(message)
    found = [
        one
        for one in YARD.pets.values()
        if app in {None, one["app"]} and state in {None, one["state"]} and (one["good"] or not good)
    ]
    start = int(after or 0)
    more = str(start + limit) if len(found) > start + limit else None
    return Page(found[start : start + limit], more, {"herd": len(found)})


async def find(_: Desk, name: str, *, app: WhichApp = None) -> Pet | None:
    found = [one for one in YARD.pets.values() if one["name"] == name and app in {None, one["app"]}]
    if len(found) > 1:
        message = f"pet {name} is in several apps"
        raise Ambiguous(message, "app")
    return found[0] if found else None


async def known(_: Desk) -> list[str]:
    return [one["name"] for one in YARD.pets.values()]


async def naps(
    _: Desk, one: Pet, *, count: Annotated[int, Param("so many", short="-n", metavar="N", least=1, most=9)] = 2
) -> Nap:
    return Nap(hours=list(range(1, count + 1)) if one["good"] else [])


Weight = Annotated[int, Param("how much", metavar="WEIGHT", read=amount, example="2kg", http="for")]


async def feed(desk: Desk, one: Pet, *, weight: Weight, food: Annotated[Any, Param("what it gets")] = None) -> Fed:
    if one["state"] == "asleep":
        message = f"pet {one['name']} is asleep"
        raise Refused(message, kind="asleep", title="It sleeps")
    one["meals"] += weight
    YARD.done.append(("feed", one["name"], weight, food))
    return Fed(name=one["name"], meals=one["meals"], by=desk.by.name, way=desk.by.way, note=desk.note)


async def feed_plan(
    _: Desk, one: Pet, *, weight: Weight, food: Annotated[Any, Param("what it gets")] = None
) -> FeedPlan:
    del food
    return FeedPlan(would_have=one["meals"] + weight)


async def rename(
    _: Desk, one: Pet, *, title: Annotated[str | None, Param("the new one", nullable=True)] = "unset"
) -> Pet:
    one["title"] = title or "none"
    return one


async def adopt(_: Desk, *, name: Annotated[str, Param("of the pet", positional=True, metavar="NAME")]) -> Pet:
    YARD.pets[name, "zoo"] = made = pet(name)
    return made


async def call(desk: Desk, one: Pet) -> Pet | None:
    return None if desk.app.agents.name != "zoo" else one


async def wash(_: Desk, one: Pet, *, soap: Annotated[str | None, Param("with this soap", outside=True)] = None) -> Pet:
    YARD.done.append(("wash", one["name"], soap))
    return one


async def plan_wash(
    _: Desk,
    *,
    state: Annotated[PetState | None, Param("all in this state")] = None,
    everything: Annotated[bool, Param("all of them", http="all", flag="--all")] = False,
    soap: Annotated[str | None, Param("with this soap", outside=True)] = None,
) -> Planned:
    del everything
    found = [one for one in YARD.pets.values() if state in {None, one["state"]}]
    return Planned(len(found), {"pets": len(found)}, (found, soap), {"until": "now"})


async def wash_slice(_: Desk, planned: Planned, most: int, pace: Pace, progress: Progress) -> int:
    found, soap = planned.work

    async def do(batch: Any) -> int:
        YARD.done.extend(("wash", one["name"], soap) for one in batch)
        return len(batch)

    return await in_batches(found[:most], do, pace=pace, progress=progress)


def shown(one: Pet, look: Look) -> list[Any]:
    return [
        line((one["state"], "state"), "  ", (one["name"], "bold"), f"  born {look.ago(one['born_at'])}"),
        line("a long story " * 12, indent=2),
        Table(["meal", "what"], [["1", "hay"]], "what"),
    ]


async def none(_: Desk, *, app: str | None = None, **_others: Any) -> str:
    return "no pets" + (f" of {app}" if app else "")


RESOURCE = Resource(
    noun="pet",
    plural="pets",
    view=Pet,
    key="name",
    deep=True,
    example="rex",
    known=known,
    listing=Listing(
        read=pets,
        summary="list pets",
        none=none,
        columns=(
            Column("pet", "name"),
            Column("app", when=lambda items, _: len({one["app"] for one in items}) > 1),
            Column("state"),
            Column("meals"),
            Column("born", "born_at"),
            Column("title", flexible=True, style="dim", least=60),
        ),
        more=Herd,
    ),
    show=Show(find=find, summary="one pet", lines=shown),
    readings=(Reading("naps", naps, "when it sleeps", lambda one, _: [f"sleeps at {one['hours']}"]),),
    verbs=(
        Verb("feed", feed, "feed it", lambda one: f"{one['name']} had {one['meals']}", plan=feed_plan,
             plans=lambda one: f"it would have {one['would_have']}", word="give"),
        Verb("rename", rename, "another title", lambda one: f"now {one['title']}", http="PATCH /{key}", note=False),
        Verb("adopt", adopt, "a new one", lambda one: f"{one['name']} is here", of_one=False, http="POST "),
        Verb("call", call, "call it by the app's code", lambda one: f"{one['name']} comes", needs_app="yes", scope="answer"),
        Verb(
            "wash",
            wash,
            "wash it",
            lambda one: f"{one['name']} is clean",
            person="wash a pet",
            bulk=Bulk(
                plan=plan_wash,
                slice=wash_slice,
                some=("state", "everything"),
                many="pets",
                done="washed",
                none=lambda way: "no pet is like that" + (": GET /v1/pets lists them" if way == "http" else ""),
                planned=lambda planned, given, _: [f"would wash {number(planned.count, 'pet')} at {given['rate']:g}/s"],
                says=lambda done, _planned, _look: [f"washed {number(done, 'pet')}"],
                view=Washed,
                rate=50.0,
            ),
        ),
    ),
    more="Pets are only for tests.",
)  # fmt: skip
ALIASES = {"feed": Alias("pets", "feed", without_key="list"), "adopt": Alias("pets", "adopt")}

__all__ = ["ALIASES", "RESOURCE", "YARD", "Limit", "NotFound", "pet"]
