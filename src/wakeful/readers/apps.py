"""Apps: which there are, with their agents."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from pydantic_core import from_json

from wakeful.readers.agents import ReadsAgents

if TYPE_CHECKING:
    from wakeful.readers.app_rows import AppReader


class ReadsApps(ReadsAgents):
    """Apps: which there are, with their agents."""

    @cached_property
    def of_apps(self) -> AppReader:
        from wakeful.readers.app_rows import AppReader

        return AppReader(self._database)

    async def apps(self) -> dict[str, set[str]]:
        """The apps that have to do with this store, with the agents that they loaded or that have run here."""
        known: dict[str, set[str]] = {row[0]: set() for row in await self._database.fetch("known_apps")}
        for app, agents in await self._database.fetch("loaded_agents"):
            known.setdefault(app, set()).update(from_json(agents))
        for agent in await self.known_agents():
            for app in await self.apps_of_agent(agent):
                known.setdefault(app, set()).add(agent)
        return known
