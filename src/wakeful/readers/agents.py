"""Agents: which are known, and what they are limited to."""

from __future__ import annotations

from typing import Any

from pydantic_core import from_json

from wakeful.clock import to_text
from wakeful.rate import Rate
from wakeful.stores.reads import ReadsDatabase


class ReadsAgents(ReadsDatabase):
    """Agents: which are known, and what they are limited to."""

    async def known_agents(self) -> list[str]:
        """The agents that ever had to do with an event here."""
        return sorted(row[0] for row in await self._database.fetch("known_agents"))

    async def keyed_agents(self) -> list[str]:
        """The agents whose runs go in order of a key."""
        return sorted(row[0] for row in await self._database.fetch("keyed_agents"))

    async def apps_of_agent(self, agent: str) -> list[str]:
        """Apps that have had runs of an agent of this name."""
        return sorted(row[0] for row in await self._database.fetch("apps_of_agent", agent))

    async def living_agents(self, app: str) -> set[str]:
        """What the processes of an app that are alive have loaded."""
        rows = await self._database.fetch("living_peers", self._database.read_clock(), app, "")
        return {agent for row in rows for agent in from_json(row[0])}

    async def waiting_agents(self, app: str) -> list[tuple[str, int]]:
        """Agents of an app with runs that wait to be claimed, and how many."""
        return [(row[0], row[1]) for row in await self._database.fetch("waiting_agents", app)]

    async def limits(self, app: str, agent: str) -> dict[str, Any]:
        """What an agent is limited to in all processes together, and how much of that is used."""
        rows = await self._database.fetch("limit_of_agent", app, agent)
        concurrency, most, within = rows[0] if rows else (None, None, None)
        running = await self._database.fetch("count_running", app, agent)
        next_start = None
        if most is not None and within is not None:
            clock = self._database.read_clock()
            waits = await self._database.fetch("next_start", clock, app, agent, most - 1, within)
            if waits and waits[0][0] > 0:
                next_start = to_text(await self.time() + waits[0][0])
        return {
            "concurrency": concurrency,
            "running": running[0][0],
            "rate": None if most is None or within is None else str(Rate(most, within)),
            "next_start_at": next_start,
        }
