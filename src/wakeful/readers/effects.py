"""Effects: what runs did outside."""

from __future__ import annotations

from typing import Any

from wakeful.clock import to_text
from wakeful.stores.reads import (
    LAST_CHARACTER,
    LONGEST_PAGE,
    SHORTEST_PREFIX,
    ReadsDatabase,
    cursor_of,
    json_of,
    next_of,
    several,
    shown,
)
from wakeful.stores.shown_errors import shown_error
from wakeful.stores.stored import HeldEffect
from wakeful.stores.transaction import Row


class ReadsEffects(ReadsDatabase):
    """Effects: what runs did outside."""

    async def effects(
        self,
        *,
        state: str | None = None,
        limit: int = 50,
        after: str | None = None,
        agent: str | None = None,
        action: str | None = None,
    ) -> dict[str, Any]:
        """A page of effects, newest first."""
        most = min(limit, LONGEST_PAGE)
        rows = await self._database.fetch("page_of_effects", state, cursor_of(after), most + 1, agent, action)
        return {"effects": [effect_summary(row[1:]) for row in rows[:most]], "next": next_of(rows, most)}

    async def effect(self, identifier: str) -> dict[str, Any] | None:
        """One effect, by its id, by the operation id that the service was told, or by the unambiguous beginning of one. `returns`
        is the JSON schema of the result that its run needs; None if that is not known, or if no code reads it.
        """
        upper = identifier + (LAST_CHARACTER if len(identifier) >= SHORTEST_PREFIX else "\x01")
        rows = await self._database.fetch("find_effects", identifier, upper)
        rows = rows or await self._database.fetch("find_effects_by_operation", identifier, upper)
        exact = [row for row in rows if identifier in {row[0], row[18]}]
        if len(rows) > 1 and not exact:
            raise several(identifier, "effect", [f"{row[0]} ({row[1]}, {row[3]})" for row in rows])
        found = exact or rows
        return {**effect_summary(found[0][:20]), "returns": json_of(found[0][20])} if found else None

    async def held_effects(self, *, agent: str | None = None, action: str | None = None) -> list[HeldEffect]:
        """All effects that wait for a person, the oldest first."""
        rows = await self._database.fetch("held_effects", agent, action)
        return [
            HeldEffect(identifier, of, name, run, bool(called), opened, reason, bool(staged), returns)
            for identifier, of, name, run, called, opened, reason, staged, returns in rows
        ]


def effect_summary(row: Row) -> dict[str, Any]:
    (identifier, action, safety, effect_state, reason, arguments, result, error, tries, attempt, opened, settled) = row[
        :12
    ]
    by, note, run, agent, undoes, once, operation, follows = row[12:]
    return {
        "id": identifier,
        "action": action,
        "safety": safety,
        "state": effect_state,
        "reason": reason,
        "arguments": shown(arguments),
        "result": json_of(result),
        "error": shown_error(error),
        "tries": tries,
        "attempt": attempt,
        "opened_at": to_text(opened),
        "settled_at": to_text(settled),
        "settled_by": by,
        "note": note,
        "run": run,
        "agent": agent,
        "undoes": undoes,
        "once": once,
        "operation": operation,
        "follows": follows,
    }
