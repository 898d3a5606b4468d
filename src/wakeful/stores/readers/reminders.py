"""Reminders."""

from __future__ import annotations

from typing import Any

from wakeful.errors import NotFound
from wakeful.model import ReminderState
from wakeful.stores.readers.base import LAST_CHARACTER, LONGEST_PAGE, ReadsDatabase, cursor_of
from wakeful.stores.reminded import page_of_reminders, reminder_change, reminder_summary

SHORTEST_REMINDER = 4  # r- and two more


class ReadsReminders(ReadsDatabase):
    """Reminders."""

    async def reminders(
        self, *, app: str | None = None, state: ReminderState | None = None, limit: int = 50, after: str | None = None
    ) -> dict[str, Any]:
        """A page of reminders, newest first."""
        found, last = await page_of_reminders(
            self._database.fetch, app=app, state=state, most=min(limit, LONGEST_PAGE), before=cursor_of(after)
        )
        return {"reminders": found, "next": None if last is None else str(last)}

    async def reminder(self, identifier: str) -> dict[str, Any] | None:
        """One reminder, by its id or the beginning of it."""
        upper = identifier + (LAST_CHARACTER if len(identifier) >= SHORTEST_REMINDER else "\x01")
        rows = await self._database.fetch("find_reminders", identifier, upper)
        exact = next((row for row in rows if row[2] == identifier), None)
        if exact is None and len(rows) > 1:
            message = f"{identifier} is the beginning of more than one reminder's id: give more of it"
            raise NotFound(message)
        found = exact or (rows[0] if rows else None)
        if found is None:
            return None
        changes = await self._database.fetch("changes_of_schedule", found[0], LONGEST_PAGE)
        return {**reminder_summary(found), "history": [reminder_change(one) for one in reversed(changes)]}
