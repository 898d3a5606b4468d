"""The runtime of one app in this process: its parts are started in the order of one table and stopped in reverse."""

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
from wakeful.intake.policy_files import read_files
from wakeful.operations.programs import lock
from wakeful.output.channels.base import Channel
from wakeful.policy.text import read_policy
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

# Each part looks at least every half minute: one that is this late is not working any more.
SILENT = 60.0


class Runtime(Parts):
    """The runtime of one app in this process."""

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
        """`watching`: only watch and run Wakeful's own agents; this process does not count as one that works for the
        app. `reading`: read sources continuously, only while the runtime is drained, or never. `sources`: the triggers
        to read, by agent (default: all). `has_token`: a token guards the app's HTTP side.
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
        """All parts of this process, in the order in which they start. They stop in reverse: first the parts that bring
        work in, then those that do it, and last the membership that shows that this process is alive.
        """
        time_passes = self.clock.for_database() is None  # a virtual clock is moved by a test, which says when to look
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
            (Part.of(self.people_files), works and time_passes),
            (Part.of(self.policy_files), works and time_passes),
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
        """Connect to the store and nothing more: enough to emit events and to read."""
        CURRENT.set(self.outage)  # for every task that is started from here
        await self.store.open(migrate=self.database.dialect == "sqlite" if migrate is None else migrate)
        try:
            self.outage.over()
            await self.reserved.learn()
            await self.policies.look()
            if self.policies.version is None and self.app.policy:
                self.policies.presume(read_policy(read_files(self.app.policy)))
        except BaseException:
            await self.store.close()  # a caller stops only a runtime that was opened
            raise

    async def start(self, *, watch: bool = True) -> None:
        """Join the other processes, take over the runs of dead ones, and begin to work. With `watch`, check
        expectations too.
        """
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
        """Finish or release the runs in flight, leave the membership, close the store."""
        await self.webhooks.stop()
        if self._working:
            self._working = False
            self.worker.claim_nothing_more()
            self._stops_by = time.monotonic() + (self.grace if grace is None else grace)
            await self._services.stop()
            self.sealing.tell()
        await self.trouble.stored()
        await self.results.stop()
        self.background.cancel()
        await self.store.close()

    def _left(self) -> float:
        """The seconds that runs and deliveries still have to finish."""
        return max(0.0, self._stops_by - time.monotonic())

    async def die(self) -> None:
        """End like a killed process: from now on nothing is stored, released or reported. For tests.

        Its lease expires by the clock, and the next process finds it dead. The same holds on SQLite, where a free lock
        would show its death at once: then there would be no time in which it is dead and unnoticed.
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
        """Work and deliver until nothing is due and no run is in flight (`wakeful once`)."""
        while True:
            told = self.teller.told
            brought = await self.sources.drain()
            await self.scheduler.tick()
            self.worker.look()
            await self.worker.drained()
            # Deliveries may have made work, since a channel can lead back in. Parked runs may come back, and a finished
            # run may let the next occurrence go.
            delivered, back = await self.courier.drain(), await self.circuits.tick()
            moved = await self.scheduler.tick()
            await self.trouble.stored()
            await self.teller.tick()  # a raised alarm may also have woken the teller itself: that has made work too
            made = brought or delivered or back or moved or told != self.teller.told
            # Sources that our own backlog held back may continue now that some of it is done.
            if not made and not await self.sources.may_go_on():
                return

    # start

    async def _enter(self) -> None:
        """Before any work: store what the app declares, and make the runs of dead processes ready again."""
        name, database, store = self.app.name, self.database, self.store
        if not self.watching:
            await self.people_files.begin()  # rules name people
            await self.policy_files.begin()
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
        if not self._working:  # while working it listens to everything anyway
            await self.hearing.listen_for_results()

    # health

    def silent_parts(self) -> dict[str, float]:
        """The parts of this process that are overdue, and by how many seconds."""
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
        """How many of the sources of this process are in which state."""
        return dict(Counter(one.state for one in self.sources.readings.values()))

    # other processes

    def _lost(self, process: str) -> None:
        """Other processes declared this one dead: drop all runs and join again under a new identity."""
        if process == self.membership.process and self._working:
            self.worker.drop_all()
            self._rejoining = self.background.start(self._rejoin())

    def _gone(self, others: list[tuple[str, int]]) -> None:
        """Other processes are no longer connected: take over their runs."""
        if self._working:
            self._taking_over = self.background.start(self.reaper.take_over(others))

    async def _rejoin(self) -> None:
        await self.worker.idle()
        self.database.unlock(self.membership.process)
        while self._working:
            try:
                # This process may have been suspended while the store became strict. `sealing` reports a wrong mark or
                # key.
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
    """Does nothing: for a part that has no start or stop."""


def runtime_of(app: Declarations) -> Runtime | None:
    """The runtime that works for an app in this process, or None."""
    return cast("Runtime | None", app.runtime)


@contextlib.asynccontextmanager
async def running(
    app: Declarations, *, worker: bool = True, migrate: bool | None = None, **options: Any
) -> AsyncIterator[Runtime]:
    """Run an app for the length of the block."""
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
    """The app's running runtime, or a new one that is only connected to the store."""
    working = runtime_of(app)
    if working is not None:
        yield working
        return
    async with running(app, worker=False) as runtime:
        yield runtime
