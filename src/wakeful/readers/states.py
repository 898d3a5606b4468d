"""States, for code that has a reader: see `resources.states`."""

from __future__ import annotations

from typing import Any

from wakeful.stores.reads import ReadsDatabase


class ReadsStates(ReadsDatabase):
    """What agents keep from run to run."""

    async def states(self, agent: str | None = None) -> list[Any]:
        """As `GET /v1/states` lists them; of one agent, if it is named."""
        from wakeful.resources import desk, resource_of

        listing, show = resource_of("state").listing, resource_of("state").show
        if agent is None:
            return [] if listing is None else list(await listing.read(desk.looking(self)))
        found = None if show is None else await show.find(desk.looking(self), agent)
        return [] if found is None else list(found["states"])
