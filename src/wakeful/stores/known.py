"""Apps, agents and processes that a store knows: the queries that several rooms ask, each once."""

from __future__ import annotations

from typing import Any

from pydantic_core import from_json

from wakeful.clock import Microseconds, to_text
from wakeful.rate import Rate
from wakeful.stores.reads import NOW, ReadsDatabase


async def known_apps(reads: ReadsDatabase) -> dict[str, set[str]]:
    """The apps that have worked on this store, each with the agents that it loaded or that have run here."""
    known: dict[str, set[str]] = {row[0]: set() for row in await reads.fetch("known_apps")}
    for app, agents in await reads.fetch("loaded_agents"):
        known.setdefault(app, set()).update(from_json(agents))
    for agent in await known_agents(reads):
        for app in await apps_of_agent(reads, agent):
            known.setdefault(app, set()).add(agent)
    return known


async def retired_apps(reads: ReadsDatabase) -> dict[str, dict[str, Any]]:
    """The retired apps, each with the operator, the time and the note."""
    rows = await reads.fetch("list_retired")
    return {app: {"at": to_text(at), "by": by, "note": note} for app, at, by, note in rows}


async def unfinished(reads: ReadsDatabase, app: str) -> dict[str, int]:
    """How many runs of an app are unfinished or need a person, by state."""
    return {state: count for state, count in await reads.fetch("unfinished_of_app", app) if count}


async def known_agents(reads: ReadsDatabase) -> list[str]:
    """The agents that ever had an admission here."""
    return sorted(row[0] for row in await reads.fetch("known_agents"))


async def apps_of_agent(reads: ReadsDatabase, agent: str) -> list[str]:
    """Apps that have had runs of an agent of this name."""
    return sorted(row[0] for row in await reads.fetch("apps_of_agent", agent))


async def living_agents(reads: ReadsDatabase, app: str) -> set[str]:
    """The agents that living processes of an app have loaded."""
    return {agent for row in await reads.fetch("living_peers", NOW, app, "") for agent in from_json(row[0])}


async def loaded_last(reads: ReadsDatabase, app: str) -> set[str]:
    """The agents that the code of an app has now, as far as the store knows: those of its living processes, and of the process
    that started last.
    """
    return {agent for row in await reads.fetch("loaded_last", NOW, app) for agent in from_json(row[0])}


async def count_runs(reads: ReadsDatabase, app: str | None = None) -> dict[str, int]:
    """How many runs are in each state; of one app, or of all."""
    rows = await (reads.fetch("count_runs") if app is None else reads.fetch("count_runs_of", app))
    return {row[0]: row[1] for row in rows}


async def waiting_channels(reads: ReadsDatabase) -> list[dict[str, Any]]:
    """Channels with pending deliveries: how many, and when (microseconds) the oldest was committed."""
    names = ("app", "channel", "count", "oldest")
    return [dict(zip(names, row, strict=True)) for row in await reads.fetch("waiting_channels")]


async def waiting_inputs(reads: ReadsDatabase) -> list[dict[str, Any]]:
    """How many inputs in quarantine wait for a person, by source and kind, with the newest of each."""
    names = ("app", "source", "kind", "count", "newest", "reason", "last_at")
    found = [dict(zip(names, row, strict=True)) for row in await reads.fetch("waiting_inputs")]
    return [{**one, "last_at": to_text(one["last_at"])} for one in found]


async def limits_of(reads: ReadsDatabase, app: str, agent: str) -> dict[str, Any]:
    """The limits of an agent over all processes, and how much of them is used."""
    rows = await reads.fetch("limit_of_agent", app, agent)
    concurrency, most, within = rows[0] if rows else (None, None, None)
    running = await reads.fetch("count_running", app, agent)
    next_start = None
    if most is not None and within is not None:
        waits = await reads.fetch("next_start", NOW, app, agent, most - 1, within)
        if waits and waits[0][0] > 0:
            next_start = to_text(await reads.time() + waits[0][0])
    return {
        "concurrency": concurrency,
        "running": running[0][0],
        "rate": None if most is None or within is None else str(Rate(most, within)),
        "next_start_at": next_start,
    }


async def next_wake(reads: ReadsDatabase, app: str) -> Microseconds | None:
    """When the next run or delivery of an app is due; None while none waits for time."""
    rows = await reads.fetch("next_wake", app, NOW)
    moments = [] if rows[0][0] is None else [int(rows[0][0])]
    for key, agent, most, within in await _rates(reads, app):
        due = await reads.fetch("count_due", NOW, app, agent, 1)
        waits = await reads.fetch("next_start", NOW, app, key, most - 1, within) if due[0][0] else []
        moments += [await reads.time() + wait[0] for wait in waits if wait[0] > 0]
    return min(moments, default=None)


async def _rates(reads: ReadsDatabase, app: str) -> list[tuple[str, str, int, Microseconds]]:
    """Each rate of an app: the name under which it counts, its agent, and how many starts it allows within which time."""
    limits = await reads.fetch("limits_of_app", app)
    rates = [(agent, agent, most, within) for agent, _, most, within in limits if most is not None]
    for of, agent, _, written, *_ in await reads.fetch("list_pauses"):
        if of == app and written is not None:
            rate = Rate.read(written)
            agents = [agent] if agent else sorted((await known_apps(reads)).get(app, ()))
            rates += [(f"resume {agent or ''}", one, rate.most, rate.within) for one in agents]
    return rates
