"""One app at work in this process: its parts, started in the order of one table and stopped in reverse."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, cast

from pydantic_core import to_json

from wakeful.clock import Clock, Microseconds
from wakeful.errors import EncryptionKeyMissing, StoreUnavailable
from wakeful.execution.lease import LEASE
from wakeful.operations.programs import lock
from wakeful.output.channels.base import Channel
from wakeful.service import Part, Services
from wakeful.stores.journal import Probe
from wakeful.stores.sealed_store import look_at_sealing
from wakeful.stores.verbs.agents import DeclaredAgent
from wakeful.stores.verbs.expectations import DeclaredExpectation
from wakeful.telemetry.outage import CURRENT
from wakeful.watch.entering import bring_back, enter_agents, enter_expectations
from wakeful.watch.ping import Ping
from wakeful.wiring import Parts

if TYPE_CHECKING:
    from wakeful.declarations import Declarations
    from wakeful.triggers.base import Trigger

# Each of the parts looks every half a minute or more often: one that is so late does not look any more.
SILENT = 60.0


class Runtime(Parts):
    """One app at work in this process."""

    def __init__(
        self,
        app: Declarations,
        *,
        store: str | None = None,
        clock: Clock | None = None,
        lease: Microseconds = LEASE,
        probe: Probe | None = None,
        grace: float = 10.0,
        channels: Mapping[str, Channel] | None = None,
        watching: bool = False,
        watch_every: Microseconds | None = None,
        ping: Ping | None = None,
        reading: Literal["always", "drained", "never"] = "always",
        sources: Mapping[str, Sequence[Trigger]] | None = None,
        has_token: bool = False,
    ) -> None:
        """`watching`: it only watches, and does what Wakeful's own agents do; it counts as nobody who works for the app.
        `reading`: sources are read as something comes, only while the runtime is drained, or not at all. `sources`: the
        triggers of each agent that are read (default: all of them). `has_token`: what started it guards the app by a token.
        """
        super().__init__(
            app,
            on_lost=self._lost,
            on_gone=self._gone,
            listen=self._listen_for_results,
            store=store,
            clock=clock,
            lease=lease,
            probe=probe,
            channels=channels,
            watching=watching,
            watch_every=watch_every,
            ping=ping,
            reading=reading,
            sources=sources,
        )
        self.grace = grace
        self._has_token = has_token
        self._stops_by = 0.0
        self._working = False
        self._rejoining: asyncio.Task[None] | None = None
        self._taking_over: asyncio.Task[None] | None = None
        self._services = Services(self._table())

    def _table(self) -> list[Part]:
        """All that goes on in this process, in the order in which it starts. It stops in reverse: first what brings work in,
        then what does it, at last what shows that this process is alive.
        """
        time_passes = self.clock.for_database() is None  # under a virtual clock, whoever moves that says when to look
        works = not self.watching
        watchdog, sources, membership = self.watchdog, self.sources, self.membership
        table: list[tuple[Part, bool]] = [
            (Part("membership", membership.join, membership.leave, membership.die), True),
            (Part("entering", self._enter, nothing), True),
            (
                Part(
                    "watchdog",
                    watchdog.start if time_passes else self._watch_loop,
                    watchdog.stop,
                    lambda: watchdog.stop(silent=True),
                ),
                True,
            ),
            (Part("courier", self.courier.start, lambda: self.courier.stop(self._left()), self.courier.die), True),
            (Part("worker", self.worker.start, lambda: self.worker.stop(self._left()), self.worker.die), True),
            *([] if self.rechecker is None else [(Part.of(self.rechecker), True)]),
            (Part.of(self.circuits), True),
            (Part.of(self.reaper), True),
            (Part("sealing", self._start_sealing, self.sealing.stop), self.database.codec.ring is not None),
            (Part.of(self.housekeeper), works),
            (Part.of(self.resolver), True),
            (Part.of(self.teller), True),
            (Part.of(self.scheduler), True),
            (Part.of(self.heartbeats), bool(self.app.heartbeats) and works and time_passes),
            (Part.of(self.watcher), time_passes),
            (Part("sources", sources.start if self.reading == "always" else nothing, sources.stop, sources.die), True),
            (Part.of(self.lookout), True),
            (Part("hearing", self.hearing.start, nothing), True),
        ]
        return [part for part, wanted in table if wanted]

    # life

    async def open(self, *, migrate: bool | None = None) -> None:
        """Connect to the store and no more: enough to emit and to read."""
        CURRENT.set(self.outage)  # of everything that is started from here
        await self.store.open(migrate=self.database.dialect == "sqlite" if migrate is None else migrate)
        self.outage.over()
        await self.reserved.learn()

    async def start(self, *, watch: bool = True) -> None:
        """Join the others, put back what dead processes left, and begin to work; with `watch`, look after what is expected."""
        await self.courier.open()
        self.store.hear(self.worker.hint)
        self.store.hear_deliveries(self.courier.wake)
        self.store.hear_cancels(self.worker.look_who_is_to_stop)
        self.store.hear_alarms(self.teller.wake)
        self._working = True
        await self._services.start(without=() if watch else (self.watcher.name,))
        self.log.info(
            "working", process=self.membership.process, agents=len(self.app.agents), store=self.database.dialect
        )

    async def stop(self, grace: float | None = None) -> None:
        """Finish or give back what runs, say goodbye, close."""
        await self.webhooks.stop()
        if self._working:
            self._working = False
            self.worker.claim_nothing_more()
            self._stops_by = time.monotonic() + (self.grace if grace is None else grace)
            await self._services.stop()
            self.sealing.tell()
        await self.trouble.stop()
        await self.results.stop()
        self.background.cancel()
        await self.store.close()

    def _left(self) -> float:
        """Seconds for which runs and deliveries may come to their end."""
        return max(0.0, self._stops_by - time.monotonic())

    async def die(self) -> None:
        """End as a killed process does: from now on nothing is stored, nobody is told, nothing is given back. For tests.

        Its lease goes on by the clock: whoever comes next buries it. So it is on SQLite too, where a free lock would tell of
        its death at once: there would be no moment at which it is dead and nobody knows.
        """
        self._working = False
        self.store.journal.die()
        await self.watchdog.stop(silent=True)
        await self.webhooks.die()
        await self._services.die()
        await self.results.stop()
        self.background.cancel()
        self.database.unlock(self.membership.process)
        await self.store.close()

    async def drain(self) -> None:
        """Work and deliver until nothing is due and nothing runs (`wakeful once`)."""
        while True:
            told = self.teller.told
            brought = await self.sources.drain()
            await self.scheduler.tick()
            self.worker.look()
            await self.worker.drained()
            # What was delivered may have made work: a channel can lead back in. And runs that were parked may come back, or
            # one that is over may let the next occurrence go.
            delivered, back = await self.courier.drain(), await self.circuits.tick()
            moved = await self.scheduler.tick()
            await self.teller.tick()  # or the one that is woken by whoever raises an alarm: then that has made work too
            made = brought or delivered or back or moved or told != self.teller.told
            # What was held back by our own backlog may come in now that some of that is done.
            if not made and not await self.sources.may_go_on():
                return

    # the beginning

    async def _enter(self) -> None:
        """Before anything works: what the app declares is stored, and runs that dead processes left are put back."""
        name, database, store = self.app.name, self.database, self.store
        if not self.watching:
            await bring_back(name, database, store)
            await self.schedules.enter(self.agents)
            if not self._has_token:
                await lock(self.app, self.store, self.membership.process)
            await enter_agents(
                name,
                [
                    DeclaredAgent(one.name, one.options.owner, one.options.starts_within or 0)
                    for one in self.agents.values()
                ],
                database,
                store,
            )
            await enter_expectations(name, self._expectations(), database, store)
            await self.heartbeats.run_once()
            await self.sources.enter()
        await self.reaper.run_once()
        await self.circuits.run_once()
        await self.trouble.note_agents_not_loaded(self.reader, self.agents)
        await self.trouble.note_channels_not_declared(self.reader, self.app.channels)

    def _expectations(self) -> list[DeclaredExpectation]:
        declared = []
        for one in self.app.expectations.values():
            agent = None if one.agent is None else self.agents[one.agent]
            owner = one.owner or (None if agent is None else agent.options.owner)
            definition = to_json(one.definition()).decode()
            declared.append(DeclaredExpectation(one.name, one.kind, definition, one.agent, owner))
        return declared

    async def _watch_loop(self) -> None:
        self.watchdog.watch_loop()

    async def _start_sealing(self) -> None:
        await self.sealing.run_once()
        await self.sealing.start()

    async def _listen_for_results(self) -> None:
        if not self._working:  # else it hears everything
            await self.hearing.listen_for_results()

    # looking at it

    def silent_parts(self) -> dict[str, float]:
        """Which parts of this process have not looked for long, and for how many seconds."""
        parts = {
            "worker": self.worker.silent_for,
            "lookout": self.lookout.silent_for,
            "scheduler": self.scheduler.silent_for,
            "teller": self.teller.silent_for,
            "reaper": self.reaper.silent_for,
            "watcher": self.watcher.silent_for,
            "heartbeats": self.heartbeats.silent_for,
        }
        return {part: since for part, since in parts.items() if self._working and since > SILENT}

    def states_of_sources(self) -> dict[str, int]:
        """How many of the sources that this process reads, or would read, are in which state."""
        return dict(Counter(one.state for one in self.sources.readings.values()))

    # other processes

    def _lost(self, process: str) -> None:
        """Others declared this process dead: drop what runs, start again under a new identity."""
        if process == self.membership.process and self._working:
            self.worker.drop_all()
            self._rejoining = self.background.start(self._rejoin())

    def _gone(self, others: list[tuple[str, int]]) -> None:
        """Other processes are not connected any more."""
        if self._working:
            self._taking_over = self.background.start(self.reaper.take_over(others))

    async def _rejoin(self) -> None:
        await self.worker.idle()
        self.database.unlock(self.membership.process)
        while self._working:
            try:
                # It may have been suspended while the store became strict. What is wrong with a mark or a key, `sealing` tells.
                with contextlib.suppress(EncryptionKeyMissing):
                    await look_at_sealing(self.store.database)
                await self.membership.join()
            except StoreUnavailable:
                await asyncio.sleep(1)
            else:
                self.log.warning("joined again under a new identity", process=self.membership.process)
                self.worker.look()
                self.courier.wake()
                return


async def nothing() -> None:
    """A part that has nothing to do then."""


def runtime_of(app: Declarations) -> Runtime | None:
    """The one that works for an app in this process."""
    return cast("Runtime | None", app.runtime)


@contextlib.asynccontextmanager
async def running(
    app: Declarations, *, worker: bool = True, migrate: bool | None = None, **options: Any
) -> AsyncIterator[Runtime]:
    """An app at work for as long as the block lasts."""
    runtime = Runtime(app, **options)
    await runtime.open(migrate=migrate)
    app.runtime, before = runtime, app.runtime
    try:
        if worker:
            await runtime.start()
        yield runtime
    finally:
        app.runtime = before
        await runtime.stop()


@contextlib.asynccontextmanager
async def reached(app: Declarations) -> AsyncIterator[Runtime]:
    """The running runtime, or one that is only connected to its store."""
    working = runtime_of(app)
    if working is not None:
        yield working
        return
    async with running(app, worker=False) as runtime:
        yield runtime
