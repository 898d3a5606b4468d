"""Guards: the tokens of apps, as hashes."""

from __future__ import annotations

from wakeful.stores.guards import TokenHash
from wakeful.stores.reads import ReadsDatabase


class ReadsGuards(ReadsDatabase):
    """Guards of apps."""

    async def guards(self) -> list[tuple[str, TokenHash]]:
        """The apps that are guarded, each with the hash of a token."""
        rows = await self._database.fetch("list_guards")
        return [(app, TokenHash(salt, hashed)) for app, salt, hashed in rows]
