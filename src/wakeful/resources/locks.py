"""Locks: what runs have locked now, and how many wait for it."""

from __future__ import annotations

from typing import Annotated

from typing_extensions import TypedDict

from wakeful.resources.declare import Column, Listing, Resource
from wakeful.resources.desk import Desk
from wakeful.resources.fields import About, Count, Moment, MomentOrNone
from wakeful.resources.parameters import OfApp


class Lock(TypedDict):
    """A lock that a run has now."""

    app: str
    name: str
    token: Annotated[int, About("Rises each time that the lock is taken")]
    run: str
    agent: str
    taken_at: Moment
    waiting: Annotated[Count, About("Runs that wait for it")]


async def locks(desk: Desk, *, app: OfApp = None) -> list[Lock]:
    return [one for one in await desk.reads.rows(Lock, "list_locks") if app in {None, one["app"]}]


class AwaitedLock(TypedDict):
    """A lock that a run waits for, and the run that has it."""

    name: str
    since: Moment
    run: str | None
    agent: str | None
    taken_at: MomentOrNone


async def awaited_by(desk: Desk, run: str) -> list[AwaitedLock]:
    """The locks that a run waits for, by its whole id."""
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
        summary="the locks that runs have now",
        none="no run has a lock now. An agent takes one with `async with run.lock(…)`.",
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
    more="A lock is free as soon as its run does not run any more.",
)
