"""The composition root: the one place that knows concrete classes and wires them together.

store ─ journal ─┬─ door (intake)
                 ├─ worker ─ executor ─ run
                 ├─ scheduler ─ schedules ─ heartbeats
                 ├─ sources ─ readers
                 ├─ webhooks ─ endpoints
                 ├─ courier ─ channels
                 ├─ teller and resolver (alarms)
                 ├─ membership (lease), reaper and housekeeper
                 ├─ watcher ─ facts, ping
                 └─ reader ─ HTTP API
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Collection, Coroutine, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from pydantic_core import to_json

from wakeful.archive import append_to_day
from wakeful.clock import Clock, Microseconds, SystemClock
from wakeful.errors import ConfigError, EncryptionKeyMissing, StoreFull, StoreUnavailable
from wakeful.execution.circuits import Circuits
from wakeful.execution.executor import Executor
from wakeful.execution.housekeeping import PAUSE, Housekeeper, Retention
from wakeful.execution.lease import LEASE, Membership
from wakeful.execution.lookout import Lookout, is_soon
from wakeful.execution.reaper import Reaper
from wakeful.execution.results import Results
from wakeful.execution.sealing import Sealing
from wakeful.execution.surroundings import Surroundings
from wakeful.execution.watchdog import Watchdog
from wakeful.execution.worker import Worker, limits_of, versions_of
from wakeful.intake.accept import Door
from wakeful.intake.cloudevents import from_envelope
from wakeful.intake.flow import flows_of
from wakeful.intake.matching import fits
from wakeful.intake.reserved import ReservedNames
from wakeful.intake.route import Router
from wakeful.model import OWN_AGENTS, Decision, Event, Receipt
from wakeful.output.channels.base import Channel
from wakeful.output.channels.base import Surroundings as ChannelSurroundings
from wakeful.output.channels.event import EventChannel
from wakeful.output.outbox import Courier
from wakeful.policy.decide import decide
from wakeful.settings import ping_url, shown_store, store_url
from wakeful.stores.agents import DeclaredAgent, KeepAgents
from wakeful.stores.alarms import ResolveAlarms
from wakeful.stores.base import Alarm, Family, RaiseAlarm, condition_alarm
from wakeful.stores.glance import Glance
from wakeful.stores.journal import Probe
from wakeful.stores.keeping import Keeper
from wakeful.stores.opening import open_database
from wakeful.stores.reading import Reader
from wakeful.stores.request import Actor, Ready
from wakeful.stores.retiring import BringBackApp
from wakeful.stores.settling import WaitSettler
from wakeful.stores.store import DatabaseStore
from wakeful.stores.watching import DeclaredExpectation, KeepExpectations
from wakeful.telemetry.logger import logger_of
from wakeful.telemetry.outage import CURRENT, Outage
from wakeful.triggers.endpoint import read_endpoints
from wakeful.triggers.heartbeats import Heartbeats
from wakeful.triggers.reading import HOLD_AGAIN_AFTER
from wakeful.triggers.releasing import Releasing
from wakeful.triggers.reminders import Reminders
from wakeful.triggers.schedule import Schedule
from wakeful.triggers.scheduler import Scheduler
from wakeful.triggers.schedules import Schedules
from wakeful.triggers.sources import Sources, brought_by
from wakeful.triggers.webhooks import KIND, Webhooks
from wakeful.watch.facts import Facts
from wakeful.watch.ping import Ping
from wakeful.watch.resolving import Resolver
from wakeful.watch.telling import Teller
from wakeful.watch.watcher import Watcher

if TYPE_CHECKING:
    from wakeful.app import App
    from wakeful.triggers.base import Trigger


FULL_AGAIN_AFTER = 60.0
LAST_ALARMS_TAKE_AT_MOST = 2.0

# On PostgreSQL a process that lets a source go, or is found dead, says so, and the lookout looks every few seconds.
ASK_FOR_SOURCES_EVERY = {"sqlite": HOLD_AGAIN_AFTER, "postgres": 60.0}

# Whoever has just started fires what is due first, and need not raise an alarm about it.
FIRST_LOOK_AFTER = 5.0
# Each of the parts looks every half a minute or more often: one that is so late does not look any more.
SILENT = 60.0


def shortest_retention(app: App) -> Microseconds | None:
    """How long what events say is certainly kept."""
    kept = [app.retention, *(agent.options.retention for agent in app.everything.values())]
    return min((one for one in kept if one is not None), default=None)


class Runtime:
    """One app at work in this process."""

    def __init__(
        self,
        app: App,
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
    ) -> None:
        """`watching`: it only watches, and does what Wakeful's own agents do; it counts as nobody who works for the app.
        `reading`: sources are read as something comes, only while the runtime is drained, or not at all. `sources`: the
        triggers of each agent that are read (default: all of them).
        """
        app.refuse_unknown_channels()
        for message in app.unknown_agents():
            raise ConfigError(message)
        clock = clock or app.clock or SystemClock()
        self.app = app
        self.clock = clock
        self.grace = grace
        self.url = store_url(store or app.store)
        self.database = open_database(
            self.url, clock, encryption=app.encryption, connections=app.connections, listen=app.listen_store
        )
        self.store = DatabaseStore(self.database, probe=probe)
        self.reader = Reader(self.database)
        self.log = logger_of(app=app.name)
        self.outage = Outage(app=app.name, store=shown_store(self.url))
        agents = self.agents = app.everything
        # Whoever only watches does what Wakeful itself needs done, like telling people of alarms, and nothing of the app's own.
        here = {name: one for name, one in app.inner.items() if name.startswith(OWN_AGENTS)} if watching else agents
        self.reserved = ReservedNames(
            app.name,
            brought=brought_by(one for agent in agents.values() for one in agent.triggers),
            agents=agents,
            stored=partial(self.database.fetch, "reserved_names", app.name),
        )
        self.door = Door(
            app.name,
            # A schedule addresses its agent itself.
            Router(
                [(one.name, [by for by in one.triggers if not isinstance(by, Schedule)]) for one in agents.values()]
            ),
            self.store,
            clock,
            owners={agent.name: agent.options.owner for agent in agents.values()},
            flows=flows_of(agents),
            rules=app.rules,
            chains=app.chains,
            on_conflict=self._note_conflict,
            on_broken_rule=self._note_broken_rule,
            reserved=self.reserved,
            on_exhausted=self._note_exhausted,
        )
        self.membership = Membership(
            self.store,
            self.database.presence,
            lease=lease,
            on_lost=self._lost,
            on_gone=self._gone,
            app=None if watching else app.name,
            limits=limits_of(here),
            versions=partial(versions_of, here),
        )
        self.circuits = Circuits(app.name, app.circuits, self.store, time_passes=clock.for_database() is None)
        self.reminders = Reminders(
            app.name,
            self.store,
            channels=app.channels,
            events_kept=app.deduplication,
            data_kept=shortest_retention(app),
        )
        self.surroundings = Surroundings(
            app.name,
            self.store,
            self.door,
            clock,
            random.Random(),
            time_for_calls=self.membership.time_for_calls,
            judge=lambda facts: decide(facts, app.rules),
            owners={agent.name: agent.options.owner for agent in agents.values()},
            agents={agent.name: agent.function for agent in agents.values()},
            matches=fits,
            channels=app.channels,
            event_channels={name: one.type for name, one in app.channels.items() if isinstance(one, EventChannel)},
            emits={name: one.options.emits for name, one in agents.items() if one.options.emits is not None},
            sent=self._sent,
            circuits=self.circuits,
            reminders=self.reminders,
            codec=None if self.database.codec.ring is None else self.database.codec,
        )
        self.results = Results(
            self.database, self.store.journal, listen=self._listen_for_results, later=lambda: self.surroundings.later
        )
        self.settler: WaitSettler | None = None
        if self.database.dialect == "postgres":
            self.settler = WaitSettler(app.name, self.database, self.store.look_again, fits)
            self.store.hear_waits(self.settler.registered)
        self.courier = Courier(
            app.name,
            app.channels if channels is None else channels,  # those of a test stand in for the app's own
            self.store,
            lambda: self.membership.process,
            ChannelSurroundings(partial(self.door.accept, by="app")),
            chance=self.surroundings.chance,
            time_for_calls=self.membership.time_for_calls,
            time_passes=clock.for_database() is None,
            owners=self.surroundings.owners,
            circuits=self.circuits,
        )
        self.worker = Worker(
            app.name,
            here,
            self.store,
            Executor(self.store, self.surroundings, from_envelope),
            lambda: self.membership.process,
            limit=app.in_flight,
            time_passes=clock.for_database() is None,
        )
        self.watchdog = Watchdog(app.name, agents, clock, lambda: self.worker.in_flight, self.database.renewer)
        every = 1.0 if self.database.dialect == "sqlite" else 5.0
        self.reaper = Reaper(
            self.store, lambda: self.membership.process, every=every, app=app.name, on_peers=self._note_peers
        )
        self.sealing = Sealing(app.name, self.store, self.database.codec, lambda: self.membership.process, self.alarm)
        self.housekeeper = Housekeeper(
            Keeper(self.database, self.store.journal),
            Retention(
                app.name,
                app.retention,
                {name: kept for name, agent in agents.items() if (kept := agent.options.retention) is not None},
                app.deduplication,
                app.quarantine,
                app.quarantine_for,
            ),
            archive=None if app.archive is None else self._archive,
            trouble=self._note_archive_trouble,
            pause=PAUSE if clock.for_database() is None else 0,
        )
        self.scheduler = Scheduler(
            app.name, self.store, self.door.arrive, here, alarm=self.alarm, time_passes=clock.for_database() is None
        )
        self.schedules = Schedules(
            app.name,
            self.store,
            arrive=self.door.arrive,
            agents=agents,
            settle=self.scheduler.settle_all,
            changed=self.scheduler.wake,
        )
        self.surroundings.schedules = self.schedules
        self._reading = reading
        endpoints = {} if watching else read_endpoints(agents.values())
        self.webhooks = Webhooks(
            app.name,
            endpoints,
            self.door,
            self.store,
            clock,
            process=lambda: self.membership.process,
            ceiling=app.quarantine,
        )
        self.sources = Sources(
            app.name,
            {}
            if watching or reading == "never"
            else {name: one.triggers for name, one in app.agents.items()}
            if sources is None
            else sources,
            self.store,
            self.door.arrive,
            lambda: self.membership.process,
            clock=clock,
            backlog=app.backlog,
            on_conflict=self._note_conflict,
            pushed=[] if watching else [(path, KIND) for path in endpoints],
            owners=self.surroundings.owners,
            lags=app.lag_within,
            hold_again_after=ASK_FOR_SOURCES_EVERY[self.database.dialect],
        )
        self.releasing = Releasing(
            app.name, self.door.arrive, self.sources.reader, lambda: self.webhooks, self.sources.brought_by
        )
        self.teller = Teller(
            app.name,
            self.store,
            # A rule that denies everything would keep the alarm about itself from being told.
            partial(self.door.arrive, judged=False),
            channels=app.channels,
            default=app.alarms,
            repeat=app.alarm_repeat,
            now=clock.now,
            time_passes=clock.for_database() is None,
        )
        self.resolver = Resolver(
            app.name,
            self.store,
            self.reader,
            agents=agents,
            channels=app.channels,
            has_room=self._has_room,
            time_passes=clock.for_database() is None,
        )
        self.reminders.changed = self.scheduler.wake
        self.heartbeats = Heartbeats(
            app.name, list(app.heartbeats.values()), self.schedules, self.store, probes=app.probes
        )
        self.watching = watching
        url = app.ping or ping_url()
        if ping is None and url is not None:
            ping = Ping(url, where=f"app {app.name}: ping")
        self.watcher = Watcher(
            Facts(self.database),
            self.store,
            None if watching else app.name,
            every=watch_every or app.watch_every,
            first_after=0.0 if watching else FIRST_LOOK_AFTER,
            ping=ping,
            time_passes=clock.for_database() is None,
        )
        self.lookout = Lookout(
            partial(self.store.glance, app.name, list(here), list(app.channels if channels is None else channels)),
            [self.worker.glanced, self._glanced] if clock.for_database() is None else [self.worker.glanced],
            then=self.sources.say_that_they_live,
        )
        self._background: set[asyncio.Task[None]] = set()
        self._pending_alarms: dict[str, Alarm] = {}
        self._storing_alarms: asyncio.Task[None] | None = None
        self._rejoining: asyncio.Task[None] | None = None
        self._taking_over: asyncio.Task[None] | None = None
        self._full_at: float | None = None
        self._archive_alarmed = True  # perhaps, by a process before this one
        self.store.hear_trouble(self._note_trouble)
        self._working = False

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
        self.store.hear_deliveries(self._sent)
        self.store.hear_cancels(self.worker.look_who_is_to_stop)
        await self.membership.join()
        self._working = True
        if not self.watching:
            await self._come_back()
            await self.schedules.enter(self.agents)
            await self._enter_agents()
            await self._enter_expectations()
            await self.heartbeats.run_once()
            await self.sources.enter()
        await self.reaper.run_once()
        await self.circuits.run_once()
        await self.worker.start()
        await self.courier.start()
        await self.reaper.start()
        await self.circuits.start()
        if self.clock.for_database() is None:  # under a virtual clock, whoever moves that says when to look
            await self.watchdog.start()
        else:
            self.watchdog.watch_loop()
        if self.settler is not None:
            await self.settler.start()
        if self.database.codec.ring is not None:
            await self.sealing.run_once()
            await self.sealing.start()
        if not self.watching:
            await self.housekeeper.start()
        await self.scheduler.start()
        if self._reading == "always":
            await self.sources.start()
        if self.app.heartbeats and not self.watching and self.clock.for_database() is None:  # as with the watchdog
            await self.heartbeats.start()
        if watch and self.clock.for_database() is None:
            await self.watcher.start()
        await self._note_agents_not_loaded()
        await self._note_channels_not_declared()
        await self.teller.start()
        await self.resolver.start()
        await self.lookout.start()
        self.store.hear_alarms(self.teller.wake)
        self._hear_others()
        if hasattr(self.database, "listen"):
            await self.database.listen()
        self.log.info(
            "working", process=self.membership.process, agents=len(self.app.agents), store=self.database.dialect
        )

    async def stop(self, grace: float | None = None) -> None:
        """Finish or give back what runs, say goodbye, close."""
        await self.webhooks.stop()
        if self._working:
            self._working = False
            self.worker.claim_nothing_more()
            await self.lookout.stop()
            await self.sources.stop()
            await self.watcher.stop()
            await self.heartbeats.stop()
            await self.scheduler.stop()
            await self.teller.stop()
            await self.resolver.stop()
            await self.housekeeper.stop()
            await self.sealing.stop()
            await self.reaper.stop()
            await self.circuits.stop()
            if self.settler is not None:
                await self.settler.stop()
            ends = time.monotonic() + (self.grace if grace is None else grace)
            try:
                await self.worker.stop(max(0.0, ends - time.monotonic()))
            finally:
                try:
                    await self.courier.stop(max(0.0, ends - time.monotonic()))
                    await self.watchdog.stop()
                finally:  # whatever else went wrong: others must not wait for the lease of a process that is gone
                    await self.membership.leave()
            self.sealing.tell()
        if self._storing_alarms is not None:
            await asyncio.wait([self._storing_alarms], timeout=LAST_ALARMS_TAKE_AT_MOST)
        await self.results.stop()
        for task in list(self._background):
            task.cancel()
        await self.store.close()

    async def die(self) -> None:
        """End as a killed process does: from now on nothing is stored, nobody is told, nothing is given back. For tests.

        Its lease goes on by the clock: whoever comes next buries it. So it is on SQLite too, where a free lock would tell of
        its death at once: there would be no moment at which it is dead and nobody knows.
        """
        self._working = False
        self.store.journal.die()
        await self.lookout.stop()
        await self.sources.die()
        await self.webhooks.die()
        await self.watcher.stop()
        await self.heartbeats.stop()
        await self.scheduler.stop()
        await self.teller.stop()
        await self.resolver.stop()
        await self.housekeeper.stop()
        await self.sealing.stop()
        await self.reaper.stop()
        await self.circuits.stop()
        await self.watchdog.stop(silent=True)
        if self.settler is not None:
            await self.settler.stop()
        await self.worker.die()
        await self.courier.die()
        await self.results.stop()
        for task in list(self._background):
            task.cancel()
        await self.membership.die()
        self.database.unlock(self.membership.process)
        await self.store.close()

    async def drain(self) -> None:
        """Work and deliver until nothing is due and nothing runs (`wakeful once`)."""
        while True:
            told = self.teller.told
            brought = await self.sources.drain()
            await self.scheduler.tick()
            self.worker.look()
            await self.worker.settled()
            # What was delivered may have made work: a channel can lead back in. And runs that were parked may come back, or
            # one that is over may let the next occurrence go.
            delivered, back = await self.courier.drain(), await self.circuits.tick()
            moved = await self.scheduler.tick()
            await self.teller.tick()  # or the one that is woken by whoever raises an alarm: then that has made work too
            made = brought or delivered or back or moved or told != self.teller.told
            # What was held back by our own backlog may come in now that some of that is done.
            if not made and not await self.sources.may_go_on():
                return

    async def _enter_agents(self) -> None:
        """Store what a watcher must know of the app's agents, where that is not what is stored."""
        declared = [
            DeclaredAgent(one.name, one.options.owner, one.options.starts_within or 0) for one in self.agents.values()
        ]
        known = {tuple(row) for row in await self.database.fetch("agents_of_app", self.app.name)}
        fresh = [one for one in declared if (one.name, one.owner, one.starts_within) not in known]
        if fresh:
            await self.store.keep_agents(KeepAgents(self.app.name, fresh))

    async def _come_back(self) -> None:
        """An app that was retired is not any more, once its code is started. Asked after this process has registered: whoever
        retires it looks for processes after that is written down.
        """
        retired = await self.database.fetch("find_retired", self.app.name)
        if not retired:
            return
        _, by, note = retired[0]
        words = f"retired by {by}" + (f": {note}" if note else "")
        await self.store.bring_app_back(
            BringBackApp(self.app.name, by=Actor("code", "worker"), note=f"its code was started; it had been {words}")
        )
        self.log.warning("the app was retired, and is back; runs that were cancelled stay so", was=words)

    async def _enter_expectations(self) -> None:
        """Store what the app expects, where that is not what is stored."""
        declared = []
        for one in self.app.expectations.values():
            agent = None if one.agent is None else self.agents[one.agent]
            owner = one.owner or (None if agent is None else agent.options.owner)
            definition = to_json(one.definition()).decode()
            declared.append(DeclaredExpectation(one.name, one.kind, definition, one.agent, owner))
        rows = await self.database.fetch("expectations_of_app", self.app.name)
        if {(one.name, one.definition, one.agent, one.owner) for one in declared} != {tuple(row[:4]) for row in rows}:
            await self.store.keep_expectations(KeepExpectations(self.app.name, declared))

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

    # hearing

    def _hear_others(self) -> None:
        database: Any = self.database
        if hasattr(database, "on_ready"):
            database.on_ready = self._look
        if hasattr(database, "on_change"):
            database.on_change = lambda: self._look(Ready())
        if hasattr(database, "on_results"):
            database.on_results = self.results.hear

    async def _listen_for_results(self) -> None:
        """Hear of runs that end in other processes: also in a process that only connected to the store."""
        database: Any = self.database
        if hasattr(database, "on_results"):
            database.on_results = self.results.hear
        if self._working:
            return  # it listens already
        if hasattr(database, "on_change"):
            database.on_change = self.results.wake
        if hasattr(database, "listen"):
            database.on_ready = lambda ready: None if ready.agents else self.results.wake()
            await database.listen()

    def _sent(self, channels: Collection[str] | None = None) -> None:
        """Deliveries were committed: to these channels, or to any."""
        self.courier.wake(channels)

    def _look(self, ready: Ready) -> None:
        """Another process made something ready, changed something, or has joined. Where it does not say for which agents, one look
        of the lookout finds out whom it concerns: with many agents it is much cheaper than to let everybody look.
        """
        if ready.app not in {None, self.app.name}:
            return
        if ready.agents:
            self.worker.look(ready)
            return
        if self.clock.for_database() is None:
            self.lookout.wake()
        else:  # there the lookout wakes nobody but the worker: time stands still unless a test moves it
            self.worker.look(ready)
            self.courier.wake()
            self.circuits.wake()
            self.scheduler.wake()
            self.teller.wake()
        self.results.wake()
        self.worker.look_who_is_to_stop()
        if ready.app is not None:
            self.reaper.wake()

    def _glanced(self, seen: Glance) -> None:
        """Wake those for which the lookout saw something, before its next look is due."""
        self.courier.wake([channel for channel, wait in seen.deliveries.items() if is_soon(wait)])
        if is_soon(seen.alarms):
            self.teller.wake()
        if is_soon(seen.schedules):
            self.scheduler.wake()
        if seen.circuits or self.circuits.knows_of_trouble:
            self.circuits.wake()
        if seen.waits and self.settler is not None:
            self.settler.wake()
        self.sources.hold_again(seen.held)

    def _note_peers(self, peers: Mapping[str, int]) -> None:
        """How many other processes have each agent."""
        self.worker.peers = peers

    def _lost(self, process: str) -> None:
        """Others declared this process dead: drop what runs, start again under a new identity."""
        if process == self.membership.process and self._working:
            self.worker.drop_all()
            self._rejoining = self._in_background(self._rejoin())

    def _gone(self, others: list[tuple[str, int]]) -> None:
        """Other processes are not connected any more."""
        if self._working:
            self._taking_over = self._in_background(self.reaper.take_over(others))

    async def _rejoin(self) -> None:
        await self.worker.idle()
        self.database.unlock(self.membership.process)
        while self._working:
            try:
                # It may have been suspended while the store became strict. What is wrong with a mark or a key, `sealing` tells.
                with contextlib.suppress(EncryptionKeyMissing):
                    await self.store.look_at_sealing()
                await self.membership.join()
            except StoreUnavailable:
                await asyncio.sleep(1)
            else:
                self.log.warning("joined again under a new identity", process=self.membership.process)
                self.worker.look()
                self.courier.wake()
                return

    # alarms

    def _note_conflict(self, event: Event | Receipt) -> None:
        self.alarm(
            f"conflict/{self.app.name}/{event.source}",
            f"{event.source} sent event {event.id} again with other content: the first one stands, see `wakeful why {event.id}`",
        )

    def _note_broken_rule(self, decision: Decision) -> None:
        self.alarm(
            f"rule/{self.app.name}/{decision.rule}", f"rule {decision.rule} denies everything: {decision.reason}"
        )

    def _note_exhausted(self, agent: str, event: Event, reason: str) -> None:
        self.alarm(
            condition_alarm(self.app.name, agent),
            f"event {event.id} of {event.source} started no run of agent {agent}, because {reason}: see `wakeful why {event.id}`",
            agent=agent,
        )

    async def _note_agents_not_loaded(self) -> None:
        """Runs of an agent that was renamed or removed would wait for ever: say so."""
        for agent, count in await self.reader.waiting_agents(self.app.name):
            if agent not in self.agents:
                self.alarm(
                    f"agent/{self.app.name}/{agent}",
                    f"{count} run(s) wait for agent {agent}, which app {self.app.name} does not have here: "
                    "was it renamed or removed? Give it its name back, or run a worker that has it",
                    agent=agent,
                )

    async def _note_channels_not_declared(self) -> None:
        """Messages to a channel that was renamed or removed would wait for ever: say so."""
        for waiting in await self.reader.waiting_channels():
            channel, count = waiting["channel"], waiting["count"]
            if waiting["app"] == self.app.name and channel not in self.app.channels:
                self.alarm(
                    f"channel/{self.app.name}/{channel}",
                    f"{count} message(s) wait for channel {channel}, which app {self.app.name} does not have here: was it "
                    "renamed or removed? Declare it again, or discard them: `wakeful deliveries "
                    f"--channel {channel} --state pending` lists them",
                )

    def _note_archive_trouble(self, text: str) -> None:
        self._archive_alarmed = True
        self.alarm(f"archive/{self.app.name}", text)

    def _note_trouble(self, error: StoreUnavailable) -> None:
        """A full disk needs a person. Every transaction is refused then; the alarm is raised at first and now and then."""
        now = time.monotonic()
        if isinstance(error, StoreFull) and (self._full_at is None or now - self._full_at > FULL_AGAIN_AFTER):
            self._full_at = now
            self.alarm(f"full/{self.app.name}", str(error))

    def _has_room(self) -> bool:
        """Has the disk not been full for a while?"""
        return self._full_at is None or time.monotonic() - self._full_at > FULL_AGAIN_AFTER

    def alarm(
        self, key: str, text: str, *, agent: str | None = None, owner: str | None = None, loud: bool = False
    ) -> None:
        """Open or refresh an alarm and say it in the log. If the store is gone it is stored once that is back."""
        self.log.error("alarm", key=key, text=text)
        self._pending_alarms[key] = Alarm(self.app.name, key, text, agent, owner, loud)
        if self._storing_alarms is None or self._storing_alarms.done():
            self._storing_alarms = self._in_background(self._store_alarms())

    async def _store_alarms(self) -> None:
        while self._pending_alarms:
            key, alarm = next(iter(self._pending_alarms.items()))
            try:
                await self.store.raise_alarm(RaiseAlarm(alarm))
            except StoreUnavailable:
                await asyncio.sleep(1)
                continue
            if self._pending_alarms.get(key) is alarm:
                del self._pending_alarms[key]

    async def _archive(self, families: Sequence[Family]) -> None:
        """Write down whole what is about to be removed."""
        folder = self.app.archive
        found = await self.reader.whole_runs([run for family in families for run, _ in sorted(family.runs)])
        runs = [run for run in found if run is not None]
        if folder is not None and runs:
            await asyncio.to_thread(append_to_day, folder, runs, await self.reader.time())
            if self._archive_alarmed:
                await self.store.resolve_alarms(ResolveAlarms([f"archive/{self.app.name}"]))
                self._archive_alarmed = False

    def _in_background(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task


@contextlib.asynccontextmanager
async def running(
    app: App, *, worker: bool = True, migrate: bool | None = None, **options: Any
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
async def reached(app: App) -> AsyncIterator[Runtime]:
    """The running runtime, or one that is only connected to its store."""
    if app.runtime is not None:
        yield app.runtime
        return
    async with running(app, worker=False) as runtime:
        yield runtime
