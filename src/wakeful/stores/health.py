"""Whether a store answers, with a schema that this code can work on."""

from __future__ import annotations

from typing import Any

from wakeful.settings import strict_encryption
from wakeful.stores.migrations import standing
from wakeful.stores.reads import NOW, ReadsDatabase
from wakeful.stores.sealing import Sealing


async def health(reads: ReadsDatabase) -> dict[str, Any]:
    """The store, its schema, and webhooks that no living server answers. Raises StoreUnavailable or SchemaMismatch."""
    database = reads.database
    await database.refuse_locked()
    schema = standing(database.dialect, await database.ledger())
    schema.refuse_behind()
    sealing = Sealing.of([row[0] for row in await reads.fetch("list_ciphers")])
    sealing.apply(database.codec, demanded=strict_encryption())
    noted = {"note": schema.note} if schema.note else {}
    parts: dict[str, Any] = {"store": database.dialect, "schema": schema.schema, **noted}
    unserved = (await reads.fetch("count_unserved", NOW))[0][0]
    if unserved:  # no process is unready for that: the living servers do their work
        words = f"no living server answers the requests to {unserved} of the webhooks: `wakeful sources` lists them"
        parts["webhooks"] = {"ok": False, "detail": words}
    return parts
