"""The checks of heartbeats."""

from __future__ import annotations

from typing import Any

from pydantic_core import from_json

from wakeful.clock import to_text
from wakeful.stores.reads import ReadsDatabase, json_of


class ReadsChecks(ReadsDatabase):
    """The checks of heartbeats."""

    async def checks(self) -> list[dict[str, Any]]:
        """The checks of heartbeats, as they were read last."""
        return [
            {
                "app": app,
                "heartbeat": agent,
                "name": name,
                "state": state,
                "definition": from_json(definition),
                "section": json_of(data) or {},
                "owner": owner,
                "next_at": to_text(next_at),
                "read_at": to_text(changed_at),
            }
            for app, name, agent, state, definition, data, owner, next_at, changed_at in (
                await self._database.fetch("list_checks")
            )
        ]
