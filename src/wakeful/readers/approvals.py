"""Approvals, for code that has a reader: see `resources.approvals`."""

from __future__ import annotations

from typing import Any

from wakeful.stores.reads import ReadsDatabase


class ReadsApprovals(ReadsDatabase):
    """Approvals: what runs ask people."""

    async def approvals(self, **filters: Any) -> dict[str, Any]:
        """As `GET /v1/approvals` lists them."""
        from wakeful.resources import desk, resource_of

        listing = resource_of("approvals").listing
        page: Any = await listing.read(desk.looking(self), **filters) if listing is not None else None
        return {"approvals": page.items, "next": page.next}

    async def approval(self, identifier: str) -> Any:
        """As `GET /v1/approvals/{id}` shows it."""
        from wakeful.resources import desk, resource_of

        show = resource_of("approvals").show
        return None if show is None else await show.find(desk.looking(self), identifier)

    async def open_approvals(self, app: str) -> set[str]:
        """The ids of what runs of an app ask people and nobody answered yet."""
        return {row[0] for row in await self._database.fetch("open_approvals", app)}
