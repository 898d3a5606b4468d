"""Locks: which locks runs hold now, and how many runs wait for each."""

from __future__ import annotations

from typing import Annotated

from typing_extensions import TypedDict

from wakeful.resources.declare import Column, Listing, Resource
from wakeful.resources.desk import Desk
from wakeful.resources.fields import About, Count, Moment, MomentOrNone
from wakeful.resources.parameters import OfApp


class Lock(TypedDict):
    """A lock that a run holds now."""

    app: str
    name: str
    token: Annotated[int, About("Increases each time the lock is taken")]
    run: str
    agent: str
    taken_at: Moment
    waiting: Annotated[Count, About("Runs that wait for it")]


async def locks(desk: Desk, *, app: OfApp = None) -> list[Lock]:
    return [one for one in await desk.reads.rows(Lock, "list_locks") if app in {None, one["app"]}]


class AwaitedLock(TypedDict):
    """A lock that a run waits for, and the run that holds it."""

    name: str
    since: Moment
    run: str | None
    agent: str | None
    taken_at: MomentOrNone


async def awaited_by(desk: Desk, run: str) -> list[AwaitedLock]:
    """The locks that a run waits for, by the run's full id."""
    return await desk.reads.rows(AwaitedLock, "waits_for_locks", run)


RESOURCE = Resource(
    noun="lock",
    plural="locks",
    view=Lock,
    key="name",
    example="till",
    state=None,
    listing=Listing(
        read=locks,
        summary="list locks that runs hold now",
        none="no run holds a lock now. An agent takes one with `async with run.lock(…)`.",
        columns=(
            Column("lock", "name", flexible=True),
            Column("app"),
            Column("agent"),
            Column("run", show=lambda one, look: look.short(one["run"])),
            Column("taken", "taken_at"),
            Column("token"),
            Column("waiting"),
        ),
    ),
    more="A lock is released as soon as its run stops running.",
)
