"""Approvals, for code that has a reader: see `resources.approvals`."""

from __future__ import annotations

from typing import Any

from wakeful.stores.readers.base import ReadsDatabase


class ReadsApprovals(ReadsDatabase):
    """Approvals: what runs ask people."""

    async def approvals(self, **filters: Any) -> dict[str, Any]:
        """As `GET /v1/approvals` lists them."""
        from wakeful.resources import approvals, desk

        page = await approvals.approvals(desk.looking(self), **filters)
        return {"approvals": page.items, "next": page.next}

    async def approval(self, identifier: str) -> Any:
        """As `GET /v1/approvals/{id}` shows it."""
        from wakeful.resources import approvals, desk

        return await approvals.find(desk.looking(self), identifier)

    async def open_questions(self, app: str) -> set[str]:
        """The ids of what runs of an app ask people and nobody answered yet."""
        return {row[0] for row in await self._database.fetch("open_questions", app)}
