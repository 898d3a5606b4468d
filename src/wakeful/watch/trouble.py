"""Problems that this process notices itself: raised as alarms, and stored once the store can be reached."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection

from wakeful.errors import StoreFull, StoreUnavailable
from wakeful.model import Decision, Event, Receipt
from wakeful.service import Background
from wakeful.stores.alarm import Alarm, about_broken_rule, condition_alarm
from wakeful.stores.known import waiting_channels
from wakeful.stores.reads import ReadsDatabase
from wakeful.stores.request import Doer
from wakeful.stores.verbs.people import RaiseAlarm
from wakeful.telemetry.logger import logger_of

FULL_AGAIN_AFTER = 60.0
STORING_TAKES_AT_MOST = 2.0


class AlarmRaiser:
    """Raises the alarms of one app in this process."""

    def __init__(self, app: str, store: Doer, background: Background) -> None:
        self._app = app
        self._store = store
        self._background = background
        self._pending: dict[str, Alarm] = {}
        self._storing: asyncio.Task[None] | None = None
        self._full_at: float | None = None
        self._log = logger_of(app=app)

    def alarm(
        self, key: str, text: str, *, agent: str | None = None, owner: str | None = None, loud: bool = False
    ) -> None:
        """Open or refresh an alarm and log it. While the store is unavailable it waits here."""
        self._log.error("alarm", key=key, text=text)
        self._pending[key] = Alarm(self._app, key, text, agent, owner, loud)
        if self._storing is None or self._storing.done():
            self._storing = self._background.start(self._store_all())

    async def _store_all(self) -> None:
        while self._pending:
            key, alarm = next(iter(self._pending.items()))
            try:
                await self._store.do(RaiseAlarm(alarm))
            except StoreUnavailable:
                await asyncio.sleep(1)
                continue
            if self._pending.get(key) is alarm:
                del self._pending[key]

    async def stored(self) -> None:
        """Wait until the raised alarms are stored, but only a moment: the store may be unavailable."""
        if self._storing is not None:
            await asyncio.wait([self._storing], timeout=STORING_TAKES_AT_MOST)

    def note_conflict(self, event: Event | Receipt) -> None:
        """An event came again with different content."""
        self.alarm(
            f"conflict/{self._app}/{event.source}",
            f"{event.source} sent event {event.id} again with different content: the first one stands, see `wakeful why {event.id}`",
        )

    def note_broken_rule(self, decision: Decision) -> None:
        """A rule raised an error, and so denies everything."""
        about = about_broken_rule(self._app, decision)
        self.alarm(about.key, about.text)

    def note_exhausted(self, agent: str, event: Event, reason: str) -> None:
        """A condition exceeded its budget."""
        self.alarm(
            condition_alarm(self._app, agent),
            f"event {event.id} of {event.source} started no run of agent {agent}, because {reason}: see `wakeful why {event.id}`",
            agent=agent,
        )

    async def note_agents_not_loaded(self, reads: ReadsDatabase, agents: Collection[str]) -> None:
        """Raise alarms for runs of agents that were renamed or removed: they would wait for ever."""
        for agent, count in await reads.fetch("waiting_agents", self._app):
            if agent not in agents:
                self.alarm(
                    f"agent/{self._app}/{agent}",
                    f"{count} run(s) wait for agent {agent}, which app {self._app} does not have here: "
                    "was it renamed or removed? Give it its name back, or run a worker that has it",
                    agent=agent,
                )

    async def note_channels_not_declared(self, reads: ReadsDatabase, channels: Collection[str]) -> None:
        """Raise alarms for deliveries to channels that were renamed or removed: they would wait for ever."""
        for waiting in await waiting_channels(reads):
            channel, count = waiting["channel"], waiting["count"]
            if waiting["app"] == self._app and channel not in channels:
                self.alarm(
                    f"channel/{self._app}/{channel}",
                    f"{count} {'delivery waits' if count == 1 else 'deliveries wait'} for channel {channel}, which app {self._app} does not have here: was it "
                    "renamed or removed? Declare it again, or discard them: `wakeful deliveries "
                    f"--channel {channel} --state pending` lists them",
                )

    def note_store(self, error: StoreUnavailable) -> None:
        """A full disk needs a person. Every transaction is refused then; the alarm is raised at first and then now and
        again.
        """
        now = time.monotonic()
        if isinstance(error, StoreFull) and (self._full_at is None or now - self._full_at > FULL_AGAIN_AFTER):
            self._full_at = now
            self.alarm(f"full/{self._app}", str(error))

    def has_room(self) -> bool:
        """Whether the disk has not been full for a while."""
        return self._full_at is None or time.monotonic() - self._full_at > FULL_AGAIN_AFTER
