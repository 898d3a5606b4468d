"""Locks: which run has one, and which runs wait for it."""

from __future__ import annotations

from typing import Any

from wakeful.clock import to_text
from wakeful.readers.runs import ReadsRuns


class ReadsLocks(ReadsRuns):
    """Locks: which run has one, and which runs wait for it."""

    async def locks(self) -> list[Any]:
        """Locks that runs have now, as `GET /v1/locks` lists them."""
        from wakeful.resources import desk, locks

        return await locks.locks(desk.looking(self))

    async def locks_of(self, run: str) -> dict[str, Any]:
        """The locks that a run has, and those that it waits for, with who has them."""
        row = await self._find_run(run)
        waits = [] if row is None else await self._database.fetch("waits_for_locks", row[0])
        return {
            "held": [one for one in await self.locks() if one["run"] == run],
            "waited_for": [
                {"name": name, "since": to_text(since), "run": holder, "agent": agent, "taken_at": to_text(at)}
                for name, since, holder, agent, at in waits
            ],
        }
