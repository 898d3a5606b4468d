"""Resolves alarms whose cause ends without an event: nothing waits any more, or the disk has room again. It looks now
and then while one of them is open.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from wakeful.service import Service
from wakeful.stores.known import waiting_channels
from wakeful.stores.reads import ReadsDatabase
from wakeful.stores.verbs.alarms import ResolveAlarms, open_alarms
from wakeful.stores.verbs.schedules import next_schedule, schedules_of

if TYPE_CHECKING:
    from wakeful.stores.store import DatabaseStore

LOOK_EVERY = 60.0


class Resolver(Service):
    """Resolves the alarms of one app whose cause has ended by itself."""

    name = "resolver"

    def __init__(
        self,
        app: str,
        store: DatabaseStore,
        reads: ReadsDatabase,
        *,
        agents: Collection[str],
        channels: Collection[str],
        has_room: Callable[[], bool],
        time_passes: bool = True,
    ) -> None:
        super().__init__()
        self._app = app
        self._store = store
        self._reads = reads
        self._agents = agents
        self._channels = channels
        self._has_room = has_room
        self._time_passes = time_passes

    async def run_once(self) -> float | None:
        """Check each open alarm once."""
        await self.tick()
        return LOOK_EVERY if self._time_passes else None

    async def tick(self) -> int:
        """Resolve alarms whose cause is over. Returns how many."""
        mine = [key for key, _ in await open_alarms(self._store.database, self._app)]
        over = await self._unloaded(mine) + await self._undeclared(mine)
        over += await self._unfired(mine)
        over += await self._answered(mine)
        over += [key for key in mine if key == f"full/{self._app}" and self._has_room()]
        if over:
            await self._store.do(ResolveAlarms(over))
        return len(over)

    async def _unloaded(self, keys: list[str]) -> list[str]:
        """Alarms about agents that no process had: they are here now, or nothing waits for them."""
        about = {key: key.split("/", 2)[2] for key in keys if key.startswith(f"agent/{self._app}/")}
        if not about:
            return []
        waiting = {agent for agent, _ in await self._reads.fetch("waiting_agents", self._app)}
        return [key for key, agent in about.items() if agent in self._agents or agent not in waiting]

    async def _unfired(self, keys: list[str]) -> list[str]:
        """Alarms about schedules that could not be fired: none of their occurrences is due any more."""
        about = {key: key.split("/", 2)[2] for key in keys if key.startswith(f"schedule/{self._app}/")}
        if not about:
            return []
        now, _ = await next_schedule(self._store.database, self._app)
        live = [one for one in await schedules_of(self._store.database, self._app) if one.state == "live"]
        due = {one.name for one in live if one.due_at is not None and one.due_at <= now}
        return [key for key, name in about.items() if name not in due]

    async def _answered(self, keys: list[str]) -> list[str]:
        """Alarms of approvals that are no longer open. An answer resolves the alarm, unless a process of an older version stored it."""
        asked = {key: key.rpartition("/")[2] for key in keys if key.startswith(f"ask/{self._app}/")}
        if not asked:
            return []
        still = {row[0] for row in await self._reads.fetch("open_approvals", self._app)}
        return [key for key, approval in asked.items() if approval not in still]

    async def _undeclared(self, keys: list[str]) -> list[str]:
        """Alarms about channels that the app did not declare: they are declared now, or nothing waits for them."""
        about = {key: key.split("/", 2)[2] for key in keys if key.startswith(f"channel/{self._app}/")}
        if not about:
            return []
        waiting = {one["channel"] for one in await waiting_channels(self._reads) if one["app"] == self._app}
        return [key for key, channel in about.items() if channel in self._channels or channel not in waiting]
