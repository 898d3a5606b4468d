"""Sources of events."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from wakeful.stores.alarm import NOT_READ, absence_alarm, source_alarm
from wakeful.stores.readers.alarms import ReadsAlarms

if TYPE_CHECKING:
    from wakeful.stores.reading_sources import SourceReader


class ReadsSources(ReadsAlarms):
    """Sources of events."""

    @cached_property
    def of_sources(self) -> SourceReader:
        from wakeful.stores.reading_sources import SourceReader

        return SourceReader(self._database)

    async def sources(self, *, app: str | None = None) -> list[dict[str, Any]]:
        """What brings events in, by app and name."""
        return await self.of_sources.all(app=app)

    async def source(self, name: str, app: str | None = None) -> dict[str, Any] | None:
        """Everything about one source, with the alarms that are about it."""
        found = await self.of_sources.one(name, app)
        if found is None:
            return None
        keys = (
            source_alarm(found["app"], name),
            absence_alarm(found["app"], name, NOT_READ),
            f"lag/{found['app']}/{name}",
        )
        alarms = (await self.alarms())["alarms"]
        return {**found, "alarms": [one for one in alarms if one["key"] in keys]}
