"""Circuits: dependencies that are, or were, down."""

from __future__ import annotations

from typing import Any

from wakeful.clock import to_text
from wakeful.stores.readers.base import ReadsDatabase


class ReadsCircuits(ReadsDatabase):
    """Circuits: dependencies that are, or were, down."""

    async def circuits(self) -> list[dict[str, Any]]:
        """Dependencies that are, or were, down, and how many runs are parked for each."""
        rows = await self._database.fetch("list_circuits")
        return [
            {
                "app": app,
                "name": name,
                "state": state,
                "failures": failures,
                "error": error,
                "rest": rest / 1_000_000,
                "next_at": to_text(next_at),
                "came_back": released,
                "changed_at": to_text(changed),
                "probe": probe,
                "parked": parked,
                "opened_at": to_text(opened),
                "waiting": waiting,
            }
            for app, name, state, failures, error, rest, next_at, released, changed, probe, parked, opened, waiting in rows
        ]
