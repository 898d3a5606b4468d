"""Schedules, for code that has a reader: see `resources.schedules`."""

from __future__ import annotations

from typing import Any

from pydantic_core import from_json

from wakeful.readers.alarms import ReadsAlarms
from wakeful.stores.reads import NOW


class ReadsSchedules(ReadsAlarms):
    """Schedules and their occurrences."""

    async def schedules(self, **which: Any) -> dict[str, Any]:
        """As `GET /v1/schedules` lists them."""
        from wakeful.resources import desk
        from wakeful.resources import schedule_reading as schedules

        page = await schedules.schedules(desk.looking(self), **which)
        return {"schedules": page.items, "next": page.next}

    async def schedule(self, name: str, app: str | None = None) -> Any:
        """As `GET /v1/schedules/{name}` answers it, or None. NotFound if several apps have it, and none is named."""
        from wakeful.resources import desk
        from wakeful.resources import schedule_reading as schedules

        return await schedules.find(desk.looking(self), name, app=app)

    async def occurrence(self, event: dict[str, Any]) -> dict[str, Any] | None:
        """What the ledger says of the occurrence that an event is; None for one that no schedule made."""
        from wakeful.resources import desk
        from wakeful.resources import schedule_reading as schedules

        envelope = event.get("envelope") or {"type": event["type"], "scheduledfor": event["id"]}
        return await schedules.occurrence(desk.looking(self), event["app"], event["source"], envelope)

    async def loaded_last(self, app: str) -> set[str]:
        """The agents that the code of an app has now, as far as the store can know: those that its living processes have
        loaded, and the one that began last.
        """
        return {agent for row in await self.fetch("loaded_last", NOW, app) for agent in from_json(row[0])}

    async def live_schedules(self) -> list[dict[str, Any]]:
        """How many schedules each app has that go on, and when (microseconds) the next one is due."""
        return [{"app": app, "count": count, "next": due} for app, count, due in await self.fetch("live_schedules")]
