"""Quarantine: input that could not be verified or read."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from wakeful.stores.reads import ReadsDatabase, cursor_of

if TYPE_CHECKING:
    from wakeful.readers.quarantine_rows import QuarantineReader


class ReadsQuarantine(ReadsDatabase):
    """Quarantine: input that could not be verified or read."""

    @cached_property
    def of_quarantine(self) -> QuarantineReader:
        from wakeful.readers.quarantine_rows import QuarantineReader

        return QuarantineReader(self._database)

    async def quarantine(
        self,
        *,
        app: str | None = None,
        source: str | None = None,
        kind: str | None = None,
        state: str | None = None,
        limit: int = 50,
        after: str | None = None,
    ) -> dict[str, Any]:
        """A page of what could not be verified or read, newest first."""
        return await self.of_quarantine.page(
            app=app, source=source, kind=kind, state=state, limit=limit, after=cursor_of(after)
        )

    async def quarantined(self, identifier: str) -> dict[str, Any] | None:
        """One of them with its bytes, by its key or the beginning of it, or by its event's id."""
        return await self.of_quarantine.one(identifier)

    async def waiting_inputs(self) -> list[dict[str, Any]]:
        """How much is in quarantine for a person, by source and kind."""
        return await self.of_quarantine.waiting()

    async def kept_of(self, app: str, source: str, kind: str | None, after: int, most: int) -> list[tuple[int, str]]:
        """(place, key) of what a source has in quarantine for a person, the oldest first."""
        return await self.of_quarantine.kept_of(app, source, kind, after, most)
