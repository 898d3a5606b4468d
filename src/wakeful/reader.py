"""Reading the nouns from a program that embeds the runtime: `runtime.reader`.

    await runtime.reader.run(identifier)               one thing, or None
    (await runtime.reader.runs(state="dead"))["runs"]  a page, with "next" for `after=`

Each noun of `resources` is read by its name, and each listing by its plural, with the filters of the HTTP API.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from typing import Any

from wakeful.resources import all_resources
from wakeful.resources.alarms import alarms
from wakeful.resources.declare import Page, Resource
from wakeful.resources.desk import Reads, looking
from wakeful.resources.processes import Process, processes
from wakeful.resources.states import State
from wakeful.stores.known import count_runs


@cache
def _by_name() -> dict[str, tuple[Resource, bool]]:
    """Resources by what a program asks for: the noun (one thing) or the plural (a listing)."""
    found = all_resources()
    return {one.noun: (one, True) for one in found} | {one.plural: (one, False) for one in found}


class Reader(Reads):
    """Answers questions about what is stored, as the HTTP API does. Every method may raise StoreUnavailable."""

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        resource, is_one = _by_name().get(name, (None, False))
        show = None if resource is None else resource.show
        listing = None if resource is None else resource.listing
        if is_one and show is not None:
            return lambda key, **which: show.find(looking(self), key, **which)
        if resource is not None and not is_one and listing is not None:
            return lambda **which: self._listed(resource.plural, listing.read, which)
        message = f'the reader has no method "{name}"'
        raise AttributeError(message)

    async def _listed(self, plural: str, read: Callable[..., Awaitable[Any]], which: Mapping[str, Any]) -> Any:
        found = await read(looking(self), **which)
        return {plural: found.items, "next": found.next, **found.more} if isinstance(found, Page) else found

    async def alarms(self, *, state: Any = None) -> dict[str, Any]:
        """As `GET /v1/alarms` lists them."""
        return {"alarms": await alarms(looking(self), state=state)}

    async def states(self, agent: str | None = None) -> list[State]:
        """States of agents; of one agent, if it is named."""
        return await self.rows(State, "list_states", agent)

    async def why(self, identifier: str) -> Mapping[str, Any] | None:
        """The whole story of an event, a run, a delivery or any other id, or None."""
        from wakeful.why import why

        return await why(self, identifier)

    async def counts(self, app: str | None = None) -> dict[str, int]:
        """How many runs are in each state; of one app, or of all."""
        return await count_runs(self, app)

    async def processes(self) -> list[Process]:
        """Processes that work, or worked, on this store."""
        return await processes(looking(self))
