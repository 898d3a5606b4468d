"""Sources of events, for code that has a reader: see `resources.sources`."""

from __future__ import annotations

from typing import Any

from wakeful.readers.alarms import ReadsAlarms


class ReadsSources(ReadsAlarms):
    """Sources of events."""

    async def sources(self, *, app: str | None = None) -> list[Any]:
        """As `GET /v1/sources` lists them."""
        from wakeful.resources import desk, sources

        return await sources.sources(desk.looking(self), app=app)

    async def source(self, name: str, app: str | None = None) -> Any:
        """As `GET /v1/sources/{name}` answers it, or None. NotFound if several apps have it, and none is named."""
        from wakeful.resources import desk, sources

        return await sources.find(desk.looking(self), name, app=app)
