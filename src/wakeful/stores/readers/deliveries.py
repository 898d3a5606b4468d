"""Deliveries: messages on their way to channels."""

from __future__ import annotations

from typing import Any

from wakeful.clock import to_text
from wakeful.stores.base import Row
from wakeful.stores.readers.base import (
    LAST_CHARACTER,
    LONGEST_PAGE,
    SHORTEST_PREFIX,
    ReadsDatabase,
    cursor_of,
    json_of,
    next_of,
    several,
)
from wakeful.stores.shown_errors import shown_error


class ReadsDeliveries(ReadsDatabase):
    """Deliveries: messages on their way to channels."""

    async def deliveries(
        self, *, channel: str | None = None, state: str | None = None, limit: int = 50, after: str | None = None
    ) -> dict[str, Any]:
        """A page of deliveries, newest first."""
        most = min(limit, LONGEST_PAGE)
        rows = await self._database.fetch("page_of_deliveries", channel, state, cursor_of(after), most + 1)
        return {"deliveries": [delivery_summary(row[1:]) for row in rows[:most]], "next": next_of(rows, most)}

    async def delivery(self, identifier: str) -> dict[str, Any] | None:
        """One delivery, by its id, which is that of its first run, a dash, and its own; both may be cut to six characters."""
        first, dash, own = identifier.partition("-")
        if not dash:
            return None
        roots = [first]
        if len(first) >= SHORTEST_PREFIX:
            rows = await self._database.fetch("find_roots", first, first + LAST_CHARACTER)
            roots = [row[0] for row in rows]
        found: dict[str, Row] = {}  # the newest of an id: one whose run was held and done again is there twice
        for root in roots:
            for row in await self._database.fetch("list_deliveries", root):
                if row[0] == identifier or (len(own) >= SHORTEST_PREFIX and row[0].startswith(f"{root}-{own}")):
                    found[row[0]] = row
        if len(found) > 1 and identifier not in found:
            raise several(identifier, "delivery", [f"{one} ({row[1]}, {row[2]})" for one, row in found.items()])
        row_found = found.get(identifier) or next(iter(found.values()), None)
        return None if row_found is None else delivery_summary(row_found)

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


def delivery_summary(row: Row) -> dict[str, Any]:
    (identifier, channel, state, reason, message, subject, error, tries, due, created, settled, run, agent) = row
    return {
        "id": identifier,
        "channel": channel,
        "state": state,
        "reason": reason,
        "message": json_of(message),
        "subject": subject,
        "error": shown_error(error),
        "tries": tries,
        "due_at": to_text(due) if state == "pending" else None,
        "committed_at": to_text(created),
        "settled_at": to_text(settled),
        "run": run,
        "agent": agent,
    }
