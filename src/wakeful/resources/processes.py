"""Processes that use or used a store. They are not a resource; `why` and commands ask whether a worker is alive."""

from __future__ import annotations

from typing_extensions import TypedDict

from wakeful.resources.desk import NOW, Desk
from wakeful.resources.fields import Moment, Seconds


class Process(TypedDict):
    """A process with its lease."""

    id: str
    host: str
    pid: int
    state: str
    started_at: Moment
    lease_until: Moment
    lease_left: Seconds


async def processes(desk: Desk) -> list[Process]:
    """All processes: live ones first, then newest first."""
    return await desk.reads.rows(Process, "list_processes", NOW)


async def living(desk: Desk) -> list[Process]:
    """The processes whose lease has not expired."""
    return [one for one in await processes(desk) if one["state"] == "alive" and one["lease_left"] > 0]
