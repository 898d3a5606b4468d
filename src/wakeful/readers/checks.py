"""The checks of heartbeats, for code that has a reader: see `resources.checks`."""

from __future__ import annotations

from typing import Any

from wakeful.stores.reads import ReadsDatabase


class ReadsChecks(ReadsDatabase):
    """The checks of heartbeats."""

    async def checks(self) -> list[Any]:
        """As `GET /v1/checks` lists them."""
        from wakeful.resources import checks, desk

        return await checks.checks(desk.looking(self))
