"""Alarms, for code that has a reader: see `resources.alarms`."""

from __future__ import annotations

from typing import Any

from wakeful.stores.reads import ReadsDatabase


class ReadsAlarms(ReadsDatabase):
    """Alarms, and what people did about them."""

    async def alarms(self, *, state: Any = None) -> dict[str, Any]:
        """As `GET /v1/alarms` lists them."""
        from wakeful.resources import alarms, desk

        return {"alarms": await alarms.alarms(desk.looking(self), state=state)}

    async def alarm(self, key: str) -> Any:
        """As `GET /v1/alarms/{key}` answers it, or None."""
        from wakeful.resources import alarms, desk

        return await alarms.find(desk.looking(self), key)

    async def runs_of_alarm(self, key: str) -> list[str]:
        """The dead and held runs that an alarm is about, the newest first."""
        return [row[0] for row in await self._database.fetch("runs_of_alarm", key)]
