"""Pauses of agents and apps."""

from __future__ import annotations

from typing import Any

from wakeful.clock import to_text
from wakeful.stores.readers.base import ReadsDatabase


class ReadsPauses(ReadsDatabase):
    """Pauses of agents and apps."""

    async def pauses(self) -> list[dict[str, Any]]:
        """What is paused, or comes back at a rate. `agent` is None for all of an app."""
        return [
            {
                "app": app,
                "agent": agent or None,
                "paused": bool(paused),
                "rate": rate,
                "by": operator,
                "note": note,
                "since": to_text(changed),
            }
            for app, agent, paused, rate, operator, note, changed in await self._database.fetch("list_pauses")
        ]
