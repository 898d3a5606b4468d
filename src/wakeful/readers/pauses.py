"""Pauses, for code that has a reader: see `resources.pauses`."""

from __future__ import annotations

from typing import Any

from wakeful.stores.reads import ReadsDatabase


class ReadsPauses(ReadsDatabase):
    """Pauses of agents and apps."""

    async def pauses(self) -> list[Any]:
        """As `GET /v1/pauses` lists them."""
        from wakeful.resources import desk, resource_of

        listing = resource_of("pauses").listing
        found: list[Any] = await listing.read(desk.looking(self)) if listing is not None else []
        return found
