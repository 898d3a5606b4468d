"""Alarms, and what people did about them."""

from __future__ import annotations

from typing import Any

from wakeful.alarm_words import title_of, todo_of
from wakeful.clock import to_text
from wakeful.stores.base import Row
from wakeful.stores.readers.base import LONGEST_PAGE, ReadsDatabase


class ReadsAlarms(ReadsDatabase):
    """Alarms, and what people did about them."""

    async def alarms(self, *, state: str | None = None) -> dict[str, Any]:
        """Alarms, the latest first."""
        rows = await self._database.fetch("list_alarms", state, LONGEST_PAGE)
        return {"alarms": [alarm_summary(row) for row in rows]}

    async def alarm(self, key: str) -> dict[str, Any] | None:
        """One alarm with what people did about it, or None."""
        rows = await self._database.fetch("find_alarm", key)
        if not rows:
            return None
        done = await self._database.fetch("operations_on_alarm", key)
        changes = [
            {"verb": verb.removeprefix("alarm "), "by": operator, "note": detail, "at": to_text(at)}
            for verb, operator, detail, at in done
        ]
        return {**alarm_summary(rows[0]), "changes": changes}

    async def runs_of_alarm(self, key: str) -> list[str]:
        """The dead and held runs that an alarm is about, the newest first."""
        return [row[0] for row in await self._database.fetch("runs_of_alarm", key)]


def alarm_summary(row: Row) -> dict[str, Any]:
    key, app, state, text, count, opened, last, agent, owner, incident, loud, told, told_at = row[:13]
    acknowledged_at, acknowledged_by, note, muted_until, resolved_at, tell_at, addressee, remind_at, ending = row[13:]
    return {
        "key": key,
        "subject": title_of(key, text, agent=agent, count=count),
        "app": app,
        "state": state,
        "text": text,
        "count": count,
        "opened_at": to_text(opened),
        "last_at": to_text(last),
        "agent": agent,
        "owner": owner,
        "incident": incident,
        "loud": bool(loud),
        "told": told,
        "told_at": to_text(told_at),
        "tell_at": to_text(tell_at),
        "acknowledged_at": to_text(acknowledged_at),
        "acknowledged_by": acknowledged_by,
        "note": note,
        "muted_until": to_text(muted_until),
        "resolved_at": to_text(resolved_at),
        "do": todo_of(key, agent=agent),
        "to": addressee,
        "remind_at": to_text(remind_at),
        "ending": ending,
    }
