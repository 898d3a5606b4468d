"""One query that tells a process everything it may have to do, in place of one query for each part."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from pydantic_core import to_json

from wakeful.clock import Microseconds
from wakeful.stores.rechecking import LEFT_BEHIND_AFTER
from wakeful.stores.transaction import Fetcher, Row


@dataclass(slots=True)
class Glance:
    """The work there is, with the microseconds until it is due; zero or less means now."""

    runs: dict[str, Microseconds] = field(default_factory=dict)  # by agent: its next run
    deliveries: dict[str, Microseconds] = field(default_factory=dict)  # by channel: its next delivery
    alarms: Microseconds | None = None
    schedules: Microseconds | None = None
    circuits: bool = False  # some circuit is not closed, or has failures or parked runs
    waits: bool = False  # some waits were registered by a process that died
    held: frozenset[str] = frozenset()  # sources that a living process reads


def glance_of(rows: Iterable[Row]) -> Glance:
    """Read rows of (what, name, wait). A row without a wait means that there is no such work."""
    seen, held = Glance(), set()
    for what, name, wait in rows:
        if wait is None:
            continue
        if what == "run":
            seen.runs[name] = wait
        elif what == "delivery":
            seen.deliveries[name] = wait
        elif what == "alarm":
            seen.alarms = wait
        elif what == "schedule":
            seen.schedules = wait
        elif what == "circuit":
            seen.circuits = True
        elif what == "wait":
            seen.waits = True
        else:
            held.add(name)
    seen.held = frozenset(held)
    return seen


async def glance(database: Fetcher, app: str, agents: Sequence[str], channels: Sequence[str]) -> Glance:
    """The work of a process that has these agents and channels, in one query."""
    listed = [to_json(list(names)).decode() for names in (agents, channels)]
    return glance_of(await database.fetch("glance", database.read_clock(), app, *listed, LEFT_BEHIND_AFTER))
