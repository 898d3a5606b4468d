"""What agents keep from run to run."""

from __future__ import annotations

from typing import Any

from wakeful.clock import to_text
from wakeful.stores.readers.base import ReadsDatabase, json_of


class ReadsStates(ReadsDatabase):
    """What agents keep from run to run."""

    async def states(self, agent: str | None = None) -> list[dict[str, Any]]:
        """What agents keep from run to run, and the run that has it now."""
        rows = await self._database.fetch("list_states", agent)
        return [
            {
                "app": app,
                "agent": name,
                "key": key,
                "value": json_of(value),
                "version": version,
                "changed_by": by,
                "changed_at": to_text(at),
                "note": note,
                "run": run,
            }
            for app, name, key, value, version, by, at, note, run in rows
        ]
