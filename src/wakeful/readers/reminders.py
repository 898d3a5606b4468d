"""Reminders, for code that has a reader: see `resources.reminders`."""

from __future__ import annotations

from typing import Any

from wakeful.stores.reads import ReadsDatabase


class ReadsReminders(ReadsDatabase):
    """Reminders."""

    async def reminders(self, **which: Any) -> dict[str, Any]:
        """As `GET /v1/reminders` lists them."""
        from wakeful.resources import desk, reminders

        page = await reminders.reminders(desk.looking(self), **which)
        return {"reminders": page.items, "next": page.next}

    async def reminder(self, identifier: str) -> Any:
        """As `GET /v1/reminders/{id}` shows it, or None."""
        from wakeful.resources import desk, reminders

        return await reminders.find(desk.looking(self), identifier)
