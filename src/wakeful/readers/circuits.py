"""Circuits, for code that has a reader: see `resources.circuits`."""

from __future__ import annotations

from typing import Any

from wakeful.stores.reads import ReadsDatabase


class ReadsCircuits(ReadsDatabase):
    """Circuits: dependencies that are, or were, down."""

    async def circuits(self) -> list[Any]:
        """As `GET /v1/circuits` lists them."""
        from wakeful.resources import circuits, desk

        return await circuits.circuits(desk.looking(self))
