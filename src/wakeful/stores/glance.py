"""One look at everything that a process could have to do: what each part would ask for itself, in one query."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from pydantic_core import to_json

from wakeful.clock import Microseconds
from wakeful.stores.rechecking import LEFT_BEHIND_AFTER
from wakeful.stores.transaction import Fetcher, Row


@dataclass(slots=True)
class Glance:
    """What there is to do, with the microseconds until it is due: zero or less is due now."""

    runs: dict[str, Microseconds] = field(default_factory=dict)  # by agent, its next run
    deliveries: dict[str, Microseconds] = field(default_factory=dict)  # by channel, its next message
    alarms: Microseconds | None = None
    schedules: Microseconds | None = None
    circuits: bool = False  # some are not as if nothing had ever failed
    waits: bool = False  # some were registered by a process that died
    held: frozenset[str] = frozenset()  # sources that a process which is alive reads


def glance_of(rows: Iterable[Row]) -> Glance:
    """Rows of (what, name, wait); one without a wait says that there is nothing."""
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
