"""All sources of an app: created from its triggers, registered in the store, read by one service each."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from wakeful.clock import Clock
from wakeful.errors import ConfigError
from wakeful.model import Arrival, Event, Receipt
from wakeful.stores.verbs.sources import EnterSources, backlog_of
from wakeful.triggers.base import Trigger
from wakeful.triggers.lags import Lags
from wakeful.triggers.reading import HOLD_AGAIN_AFTER, SourceReading
from wakeful.triggers.source import Context, Reader, ReadTrigger, SeenItems
from wakeful.triggers.unmade import make_reader
from wakeful.triggers.webhook import Webhook

if TYPE_CHECKING:
    from wakeful.stores.store import DatabaseStore

# The backlog is checked this many times while it could fill up.
LOOKS_A_BACKLOG = 4
# For a source that returned nothing since the last check, that check is valid this long (seconds): other sources check again
# with their own batches.
QUIET_FOR_AT_MOST = 30.0


class Sources:
    """The sources of one app in this process."""

    def __init__(
        self,
        app: str,
        triggers: Mapping[str, Sequence[Trigger]],
        store: DatabaseStore,
        arrive: Callable[[Event], Arrival],
        process: Callable[[], str],
        *,
        clock: Clock,
        backlog: int | None,
        on_conflict: Callable[[Receipt], None] = lambda _: None,
        pushed: Sequence[tuple[str, str]] = (),
        owners: Mapping[str, str | None] | None = None,
        lags: Lags | None = None,
        hold_again_after: float = HOLD_AGAIN_AFTER,
    ) -> None:
        """`triggers` by agent. `pushed`: (name, kind) of sources that are not read because senders call this process."""
        self._app = app
        self._store = store
        self._agents = list(triggers)
        self._backlog = backlog
        self._asked_at: float | None = None  # last time the backlog was checked and was small enough
        self._pushed = list(pushed)
        self._owners = owners or {}
        self._lags = lags
        context = Context(app, socket.gethostname(), clock, SeenItems(store.database))
        self.readings: dict[str, SourceReading] = {}
        self._wakes = {name: _agents_of(name, triggers) for name, _ in pushed}
        self._brings: dict[str, list[str]] = {}  # by name of a source: the `source` values of its events
        for one in (one for mine in triggers.values() for one in mine if isinstance(one, Webhook)):
            self._brings[one.path] = [one.source]
        for sharing in shared(triggers):
            reader = make_reader(sharing, context)
            if reader.name in self.readings:
                message = f"app {app}: two sources are called {reader.name}: declare their triggers alike, or name one of them"
                raise ConfigError(message)
            self._brings[reader.name] = sorted({one.source for one in sharing if one.source is not None})
            self._wakes[reader.name] = [
                agent for agent, mine in triggers.items() if any(one in sharing for one in mine)
            ]
            self.readings[reader.name] = SourceReading(
                app,
                reader,
                store,
                arrive,
                process,
                too_much=self._too_much,
                enter=self.enter,
                event_source=sharing[0].source or reader.name,
                on_conflict=on_conflict,
                look_after=None if backlog is None else max(1, backlog // LOOKS_A_BACKLOG),
                hold_again_after=hold_again_after,
            )

    async def enter(self) -> None:
        """Register the sources. Done before any of them is read, so that a source that was never readable is visible."""
        known = [(name, one.reader.kind) for name, one in self.readings.items()] + self._pushed
        if known:
            lags = {} if self._lags is None else {name: self._lags.within(name) for name, _ in known}
            await self._store.do(
                EnterSources(self._app, known, self._wakes, self._owners_of_sources(), lags, self._brings)
            )

    def _owners_of_sources(self) -> dict[str, str | None]:
        """Who is alerted for each source: the first owner among the agents that it wakes."""
        return {
            name: next((owner for agent in agents if (owner := self._owners.get(agent)) is not None), None)
            for name, agents in self._wakes.items()
        }

    async def start(self) -> None:
        for one in self.readings.values():
            await one.start()

    async def stop(self) -> None:
        await asyncio.gather(*(one.stop() for one in self.readings.values()))

    async def die(self) -> None:
        for one in self.readings.values():
            await one.die()

    def hold_again(self, held: Collection[str] = ()) -> None:
        """Try again to hold sources that, as far as known, no process reads: those not in `held`."""
        for name, one in self.readings.items():
            if name not in held:
                one.hold_again()

    async def report_alive(self) -> None:
        """Record a sign of life for sources that brought nothing for long, in one transaction."""
        await asyncio.gather(*(one.report_alive() for one in self.readings.values()))

    async def drain(self) -> int:
        """Take in the input that is there now (`wakeful once`); returns the number of batches. Sources with a running reader are
        left alone.
        """
        return sum([await one.drain() for one in self.readings.values() if not one.runs])

    async def may_go_on(self) -> bool:
        """Whether a drained source stopped at too large a backlog that has become smaller since."""
        paused = any(one.state == "paused" and not one.runs for one in self.readings.values())
        return paused and await self._too_much(True) is None

    def reader(self, name: str) -> Reader | None:
        one = self.readings.get(name)
        return None if one is None else one.reader

    def brought_by(self, name: str) -> list[str]:
        """The `source` values that events of this source have; empty if unknown until they come."""
        return self._brings.get(name, [])

    async def _too_much(self, fresh: bool) -> str | None:
        if self._backlog is None:
            return None
        now = time.monotonic()
        if not fresh and self._asked_at is not None and now - self._asked_at < QUIET_FOR_AT_MOST:
            return None
        self._asked_at = None
        waiting = await backlog_of(self._store.database, self._app, self._agents, self._backlog)
        if waiting < self._backlog:
            self._asked_at = now
            return None
        return (
            f"{waiting:,} runs wait to be started, the limit of App(backlog=…); reading resumes when some have finished"
        )


def _agents_of(name: str, triggers: Mapping[str, Sequence[Trigger]]) -> list[str]:
    """The agents that a pushed source wakes: those with a webhook of that path, regardless of the `source` of its events."""
    return [
        agent for agent, mine in triggers.items() if any(isinstance(one, Webhook) and one.path == name for one in mine)
    ]


def brought_by(triggers: Iterable[Trigger]) -> dict[str, str]:
    """The `source` values of events that come through a trigger of their own, with that trigger's name."""
    found: dict[str, str] = {}
    for one in triggers:
        if one.source is not None and isinstance(one, Webhook | ReadTrigger):
            found.setdefault(one.source, f'webhook "{one.path}"' if isinstance(one, Webhook) else one.describe())
    return found


def shared(triggers: Mapping[str, Sequence[Trigger]]) -> list[list[ReadTrigger]]:
    """The triggers that are read from outside, grouped by shared reader."""
    groups: dict[tuple[object, ...], list[ReadTrigger]] = {}
    for mine in triggers.values():
        for one in mine:
            if isinstance(one, ReadTrigger):
                group = groups.setdefault(one.shared, [])
                if one not in group:
                    group.append(one)
    return list(groups.values())
