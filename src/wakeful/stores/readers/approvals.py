"""Approvals: what runs ask people."""

from __future__ import annotations

from typing import Any

from wakeful.clock import to_text
from wakeful.errors import NotFound
from wakeful.stores.readers.base import (
    LAST_CHARACTER,
    LONGEST_PAGE,
    SHORTEST_PREFIX,
    ReadsDatabase,
    cursor_of,
    json_of,
    next_of,
)
from wakeful.stores.transaction import Row


class ReadsApprovals(ReadsDatabase):
    """Approvals: what runs ask people."""

    async def approvals(self, *, state: str | None = None, limit: int = 50, after: str | None = None) -> dict[str, Any]:
        """A page of questions to people, newest first."""
        most = min(limit, LONGEST_PAGE)
        rows = await self._database.fetch("page_of_approvals", state, cursor_of(after), most + 1)
        return {"approvals": [approval_summary(row[1:]) for row in rows[:most]], "next": next_of(rows, most)}

    async def approval(self, identifier: str) -> dict[str, Any] | None:
        """One question, by its id or the beginning of it."""
        upper = identifier + (LAST_CHARACTER if len(identifier) >= SHORTEST_PREFIX else "\x01")
        rows = await self._database.fetch("find_approvals", identifier, upper)
        exact = next((row for row in rows if row[1] == identifier), None)
        if exact is None and len(rows) > 1:
            message = f"{identifier} is the beginning of more than one question's id: give more of it"
            raise NotFound(message)
        found = exact or (rows[0] if rows else None)
        return None if found is None else approval_summary(found[1:])

    async def open_questions(self, app: str) -> set[str]:
        """The ids of what runs of an app ask people and nobody answered yet."""
        return {row[0] for row in await self._database.fetch("open_questions", app)}


def approval_summary(row: Row) -> dict[str, Any]:
    (identifier, app, agent, run, question, to, schema, state, answer, by, note, asked, due, answered) = row
    return {
        "id": identifier,
        "app": app,
        "agent": agent,
        "run": run,
        "question": question,
        "to": to,
        "schema": json_of(schema),
        "state": state,
        "answer": json_of(answer),
        "answered_by": by,
        "note": note,
        "asked_at": to_text(asked),
        "due_at": to_text(due),
        "answered_at": to_text(answered),
    }
