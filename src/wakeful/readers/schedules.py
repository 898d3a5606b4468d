"""Schedules and their occurrences."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from wakeful.readers.alarms import ReadsAlarms
from wakeful.stores.reads import cursor_of

if TYPE_CHECKING:
    from wakeful.triggers.instants import ScheduleReader


class ReadsSchedules(ReadsAlarms):
    """Schedules and their occurrences."""

    @cached_property
    def of_schedules(self) -> ScheduleReader:
        from wakeful.triggers.instants import ScheduleReader

        return ScheduleReader(self._database)

    async def schedules(
        self,
        *,
        app: str | None = None,
        agent: str | None = None,
        state: str | None = None,
        whole: bool = False,
        limit: int = 50,
        after: str | None = None,
    ) -> dict[str, Any]:
        """A page of schedules, by app and name; with `whole`, reminders and removed ones too."""
        return await self.of_schedules.page(
            app=app, agent=agent, state=state, whole=whole, limit=limit, after=cursor_of(after)
        )

    async def schedule(self, name: str, app: str | None = None) -> dict[str, Any] | None:
        """Everything about one schedule, with the alarms that are about it."""
        found = await self.of_schedules.one(name, app)
        if found is None:
            return None
        alarms = (await self.alarms())["alarms"]
        return {**found, "alarms": [one for one in alarms if is_about(one["key"], found["app"], name)]}

    async def schedule_instants(self, name: str, app: str | None = None, count: int = 5) -> dict[str, Any] | None:
        """The next instants of a schedule."""
        return await self.of_schedules.instants(name, app, count, now=await self.time())

    async def loaded_last(self, app: str) -> set[str]:
        """The agents that the code of an app has now, as far as the store can know."""
        return await self.of_schedules.loaded_last(app)

    async def occurrence(self, event: dict[str, Any]) -> dict[str, Any] | None:
        """What the ledger says of the occurrence that an event is; None for one that no schedule made."""
        envelope = event.get("envelope") or {"type": event["type"], "scheduledfor": event["id"]}
        return await self.of_schedules.occurrence(event["app"], event["source"], envelope)


def is_about(alarm: str, app: str, schedule: str) -> bool:
    """Is this the key of an alarm about a schedule?"""
    kind, _, rest = alarm.partition("/")
    mine = f"{app}/{schedule}"
    if kind == "heartbeat":  # about the check itself, or about the file that it is written in
        return rest in {mine, mine.rpartition("/")[0]}
    return (kind in {"missed", "schedule"} and rest == mine) or (kind == "expect" and rest.startswith(f"{mine}/"))
