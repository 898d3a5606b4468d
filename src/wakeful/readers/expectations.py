"""Expectations: what should happen by when."""

from __future__ import annotations

from typing import Any

from pydantic_core import from_json

from wakeful.stores.reads import ReadsDatabase


class ReadsExpectations(ReadsDatabase):
    """Expectations: what should happen by when."""

    async def expectations(self) -> list[dict[str, Any]]:
        """What should happen by when, and how it stands."""
        from wakeful.watch.listing import listed

        return await listed(self._database)

    async def checkins_expected(self) -> list[tuple[str, str]]:
        """Which apps expect which check-ins."""
        rows = [(app, from_json(definition)) for app, definition in await self._database.fetch("list_expectations")]
        return [(app, one["subject"]) for app, one in rows if one.get("subject") is not None]
