"""Deliveries, for code that has a reader: see `resources.deliveries`."""

from __future__ import annotations

from typing import Any

from wakeful.clock import to_text
from wakeful.stores.reads import ReadsDatabase


class ReadsDeliveries(ReadsDatabase):
    """Deliveries: messages on their way to channels."""

    async def deliveries(self, **filters: Any) -> dict[str, Any]:
        """As `GET /v1/deliveries` lists them."""
        from wakeful.resources import desk, resource_of

        listing = resource_of("deliveries").listing
        page: Any = await listing.read(desk.looking(self), **filters) if listing is not None else None
        return {"deliveries": page.items, "next": page.next}

    async def delivery(self, identifier: str) -> Any:
        """As `GET /v1/deliveries/{id}` shows it."""
        from wakeful.resources import desk, resource_of

        show = resource_of("deliveries").show
        return None if show is None else await show.find(desk.looking(self), identifier)

    async def dead_deliveries(self, *, channel: str | None = None, agent: str | None = None) -> list[dict[str, Any]]:
        """All dead deliveries, newest first, as much of each as it takes to group and to replay them."""
        rows = await self._database.fetch("list_dead_deliveries", channel, agent)
        return [
            {
                "id": identifier,
                "channel": name,
                "agent": of,
                "run": run,
                "error": {"type": kind or "", "message": message or ""},
                "reason": reason,
                "finished": settled,
                "finished_at": to_text(settled),
            }
            for identifier, name, of, run, kind, message, reason, settled in rows
        ]

    async def count_dead_deliveries(self) -> int:
        """How many deliveries are given up until a person acts."""
        return int((await self._database.fetch("count_dead_deliveries"))[0][0])

    async def delivery_counts(self, app: str) -> dict[str, int]:
        """How many deliveries of an app are in each state."""
        return {row[0]: row[1] for row in await self._database.fetch("count_deliveries_of", app)}

    async def waiting_channels(self) -> list[dict[str, Any]]:
        """Channels that messages wait for: how many, and since when (microseconds) the oldest was committed."""
        rows = await self._database.fetch("waiting_channels")
        return [
            {"app": app, "channel": channel, "count": count, "oldest": oldest} for app, channel, count, oldest in rows
        ]
