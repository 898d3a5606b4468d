"""The processes that work on a store, and whether the store is fit for them."""

from __future__ import annotations

from typing import Any

from wakeful.clock import to_text
from wakeful.settings import strict_encryption
from wakeful.stores.migrations import standing
from wakeful.stores.reads import ReadsDatabase
from wakeful.stores.sealing import Sealing


class ReadsProcesses(ReadsDatabase):
    """The processes that work on a store, and whether the store is fit for them."""

    async def processes(self) -> list[dict[str, Any]]:
        """Who works, or worked, on this store."""
        rows = await self._database.fetch("list_processes", self._database.read_clock())
        return [
            {
                "id": row[0],
                "host": row[1],
                "pid": row[2],
                "state": row[3],
                "started_at": to_text(row[4]),
                "lease_until": to_text(row[5]),
                "lease_left": row[6] / 1_000_000,
            }
            for row in rows
        ]

    async def health(self) -> dict[str, Any]:
        """Does the store answer, with the right schema? Raises StoreUnavailable or SchemaMismatch."""
        await self._database.refuse_locked()
        schema = standing(self._database.dialect, await self._database.ledger())
        schema.refuse_behind()
        sealing = Sealing.of([row[0] for row in await self._database.fetch("list_ciphers")])
        sealing.apply(self._database.codec, demanded=strict_encryption())
        noted = {"note": schema.note} if schema.note else {}
        parts: dict[str, Any] = {"store": self._database.dialect, "schema": schema.schema, **noted}
        unserved = (await self._database.fetch("count_unserved", self._database.read_clock()))[0][0]
        if unserved:  # nobody is unready for that: the servers that live do their work
            words = f"no living server answers the requests to {unserved} of the webhooks: `wakeful sources` lists them"
            parts["webhooks"] = {"ok": False, "detail": words}
        return parts
