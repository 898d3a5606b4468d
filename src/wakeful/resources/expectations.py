"""Expectations: what must happen by when, and whether it did."""

from __future__ import annotations

from typing import Annotated, Any, Literal, cast

from typing_extensions import TypedDict

from wakeful.resources.declare import Column, Listing, Resource
from wakeful.resources.desk import Desk
from wakeful.resources.fields import About, MomentOrNone
from wakeful.resources.parameters import OfApp
from wakeful.resources.words import Look, plain
from wakeful.watch.absence import WORDS, Kind
from wakeful.watch.listing import listed


class Expectation(TypedDict):
    """Something that must happen by a certain time."""

    app: str
    name: str
    kind: Literal["schedule", "by", "every", "output", "source"]
    what: Annotated[str, About("What must happen, in words")]
    agent: str | None
    owner: Annotated[str | None, About("Who is notified")]
    state: Literal["met", "pending", "absent", "excused"]
    absence: Annotated[Kind | None, About("Absent: why it did not happen")]
    reason: str
    met_at: Annotated[MomentOrNone, About("When it was last met")]
    due_at: Annotated[MomentOrNone, About("When it becomes overdue")]


async def expectations(desk: Desk, *, app: OfApp = None) -> list[Expectation]:
    found = await listed(desk.reads.database)
    return [cast("Expectation", one) for one in found if app in {None, one["app"]}]


async def none(_: Desk, *, app: str | None = None) -> str:
    if app is not None:
        return f"app {plain(app)} has no expectations"
    return "no expectations yet. Every schedule is one; declare more with app.expect(…)."


def standing(one: Any, _: Look) -> tuple[str, str]:
    absence: Kind | None = one["absence"]
    return (one["state"], "state") if absence is None else (WORDS[absence], "red")


RESOURCE = Resource(
    noun="expectation",
    plural="expectations",
    view=Expectation,
    key="name",
    example="nightly backup",
    listing=Listing(
        read=expectations,
        summary="list expectations and whether they are met",
        none=none,
        columns=(
            Column("app", when=lambda items, _: len({one["app"] for one in items}) > 1),
            Column("expectation", "name"),
            Column("state", show=standing),
            Column("last met", "met_at"),
            Column("due", "due_at"),
            Column("what"),
            Column("reason", style="dim", least=140),
        ),
    ),
    more="`wakeful why NAME` explains one expectation.",
)
