"""Events: listings, everything about one, and those that can be fed to an agent."""

from __future__ import annotations

from typing import Any

from wakeful.clock import Microseconds, to_text
from wakeful.readers.quarantine import ReadsQuarantine
from wakeful.stores.reads import LONGEST_PAGE, cursor_of, json_of, next_of
from wakeful.stores.stored import EventToFeed
from wakeful.stores.transaction import Row


class ReadsEvents(ReadsQuarantine):
    """Events: listings, everything about one, and those that can be fed to an agent."""

    async def events(
        self,
        *,
        type: str | None = None,  # noqa: A002 the field's own name
        state: str | None = None,
        id: str | None = None,  # noqa: A002
        limit: int = 50,
        after: str | None = None,
    ) -> dict[str, Any]:
        """A page of events, newest first."""
        most = min(limit, LONGEST_PAGE)
        rows = await self._database.fetch("list_events", type, state, id, cursor_of(after), most + 1)
        return {"events": [event_summary(row) for row in rows[:most]], "next": next_of(rows, most)}

    async def event(self, identifier: str) -> dict[str, Any] | None:
        """Everything about one event, by its key or its id; the newest where several sources used that id."""
        rows = await self._database.fetch("find_events", identifier)
        if not rows:
            return None
        row = rows[0]
        admissions = await self._database.fetch("list_admissions", row[0])
        conflicts = await self._database.fetch("list_conflicts", row[0])
        decisions = await self._database.fetch("list_decisions", row[0])
        return {
            **event_summary(row),
            "envelope": json_of(row[11]) if row[11] else None,
            "payload_removed": not row[11],
            "admissions": [
                {"agent": agent, "state": state, "run": run, "reason": reason}
                for agent, state, run, reason in admissions
            ],
            "conflicts": [
                {"envelope": json_of(envelope or "null"), "seen_at": to_text(seen)} for _, envelope, seen in conflicts
            ],
            "decisions": [decision_summary(one) for one in decisions],
            "waited": [{"run": run, "agent": agent} for run, agent in await self._database.fetch("who_waited", row[0])],
            "same_id": len(rows) - 1,
            "quarantine": await self._quarantine_of(row[1]) if row[7] == "quarantined" else None,
            "released_from": await self.of_quarantine.released_from(row[1]),
        }

    async def _quarantine_of(self, key: str) -> dict[str, Any] | None:
        """Why an event is in quarantine, and what became of it; its bytes are in the envelope."""
        found = await self.of_quarantine.one(key)
        return (
            None if found is None else {name: value for name, value in found.items() if name not in {"raw", "received"}}
        )

    async def events_to_feed(
        self,
        agent: str,
        prefix: str,
        *,
        app: str | None,
        since: Microseconds,
        until: Microseconds,
        after: int = 0,
        most: int = LONGEST_PAGE,
        whole: bool = False,
    ) -> list[EventToFeed]:
        """Stored events whose type begins with `prefix`, oldest first, with what they are to an agent."""
        window = (app, prefix, since, until, agent, after, most, int(whole))
        return [EventToFeed(*row) for row in await self._database.fetch("list_events_to_feed", *window)]


def event_summary(row: Row) -> dict[str, Any]:
    return {
        "key": row[1],
        "app": row[2],
        "source": row[3],
        "id": row[4],
        "type": row[5],
        "subject": row[6],
        "state": row[7],
        "reason": row[8],
        "duplicates": row[9],
        "accepted_at": to_text(row[10]),
    }


def decision_summary(row: Row) -> dict[str, Any]:
    agent, answer, rule, version, reason, decided = row
    return {
        "agent": agent,
        "answer": answer,
        "rule": rule,
        "version": version,
        "reason": reason,
        "decided_at": to_text(decided),
    }
